// Package anthropic is the wire of Anthropic's Messages API: its requests, messages, events
// and errors. It does no I/O.
// Source: https://docs.anthropic.com/en/api/messages.
package anthropic
