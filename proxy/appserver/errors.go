package appserver

import (
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrConnectionLost is wrapped by the cause of every closure that we did
	// not ask for: end of stream, a malformed message, a write that timed out.
	ErrConnectionLost = errors.New("connection to codex app-server lost")
	// ErrClosed is the cause when Close was given none.
	ErrClosed = errors.New("connection to codex app-server closed")
	// ErrSlowConsumer ends a turn whose events were not read fast enough.
	ErrSlowConsumer = errors.New("turn cancelled: its events were not read fast enough")
	// ErrTurnClosed is what Next returns after Close.
	ErrTurnClosed = errors.New("turn closed")
	// ErrSilent is what NextWithin returns when no event has come for so long.
	ErrSilent = errors.New("codex app-server is silent")
	// ErrTooLarge means a message beyond what codex accepts (64 MiB).
	ErrTooLarge = errors.New("message too large for codex app-server")
)

// JSON-RPC error codes that codex app-server 0.169 uses. Unknown methods,
// unknown threads and bad parameters all come as CodeInvalidRequest.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInternalError  = -32603
	CodeOverloaded     = -32001
)

// RPCError is an error reply from codex.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *RPCError) Error() string {
	return fmt.Sprintf("codex app-server: %s (code %d)", e.Message, e.Code)
}

// ShuttingDown reports whether codex refused because it is draining after a
// SIGTERM (code -32600, data.reason "serverShuttingDown").
func (e *RPCError) ShuttingDown() bool {
	var data struct {
		Reason string `json:"reason"`
	}
	return json.Unmarshal(e.Data, &data) == nil && data.Reason == "serverShuttingDown"
}

// isOverloaded reports whether err is codex asking to try again later.
func isOverloaded(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Code == CodeOverloaded
}

// isRefused reports whether err is codex saying that it never will: of a thread,
// for example, that it does not know any more.
func isRefused(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Code != CodeOverloaded && !e.ShuttingDown()
}

// waitError says that a request was sent and its reply not waited for.
type waitError struct {
	method string
	cause  error
}

func (e *waitError) Error() string { return fmt.Sprintf("cannot wait for %s: %s", e.method, e.cause) }
func (e *waitError) Unwrap() error { return e.cause }

func lost(doing string, err error) error {
	return fmt.Errorf("%w: cannot %s: %w", ErrConnectionLost, doing, err)
}
