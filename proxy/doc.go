// Package proxy serves the OpenAI API over HTTP in front of a pool of codex
// workers: routes, authentication, limits, the mapping of a request onto a
// turn, streaming, errors and metrics.
package proxy
