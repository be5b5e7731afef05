// Package eventstream makes the events of a streamed response, and the response itself, from the events of a turn.
package eventstream
