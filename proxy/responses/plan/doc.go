// Package plan makes the turn of a request for a response: it maps the items of the conversation onto codex's
// history, and compacts it if the request asks for that.
package plan
