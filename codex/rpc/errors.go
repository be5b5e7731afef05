package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrLost is wrapped by the cause of every closure that the owner did not ask for: end of stream, a malformed
	// message, a write that timed out.
	ErrLost = errors.New("connection to codex app-server lost")
	// ErrClosed is the cause when Close was given none.
	ErrClosed = errors.New("connection to codex app-server closed")
	// ErrTooLarge is the error of a message beyond the limit of codex, 64 MiB.
	ErrTooLarge = errors.New("message too large for codex app-server")
)

// The codes of error replies of codex app-server 0.169. Unknown methods, unknown threads and bad parameters all arrive
// as CodeInvalidRequest.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInternalError  = -32603
	CodeOverloaded     = -32001
)

// Error is the error of an error reply.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("codex app-server: %s (code %d)", e.Message, e.Code)
}

// ShuttingDown reports whether codex refused because it drains after a SIGTERM (code -32600, data.reason
// "serverShuttingDown").
func (e *Error) ShuttingDown() bool {
	var data struct {
		Reason string `json:"reason"`
	}
	return json.Unmarshal(e.Data, &data) == nil && data.Reason == "serverShuttingDown"
}

// WaitError is the error of a sent request if its caller stops waiting before the reply.
type WaitError struct {
	method string
	cause  error
}

// Error implements error.
func (e *WaitError) Error() string { return fmt.Sprintf("cannot wait for %s: %s", e.method, e.cause) }

// Unwrap returns the cause of the caller's context.
func (e *WaitError) Unwrap() error { return e.cause }

func lost(doing string, err error) error {
	return fmt.Errorf("%w: cannot %s: %w", ErrLost, doing, err)
}
