package appserver

import (
	"errors"

	"codex-proxy/codex/rpc"
)

// The errors of the connection, for callers that know only this package.
var (
	// ErrConnectionLost is rpc.ErrLost.
	ErrConnectionLost = rpc.ErrLost
	// ErrTooLarge is rpc.ErrTooLarge.
	ErrTooLarge = rpc.ErrTooLarge
)

// RPCError is an error reply from codex.
type RPCError = rpc.Error

var (
	// ErrSlowConsumer ends a turn if its reader is too slow.
	ErrSlowConsumer = errors.New("turn cancelled: its events were not read fast enough")
	// ErrTurnClosed is the error of Next after Close.
	ErrTurnClosed = errors.New("turn closed")
	// ErrSilent is the error of NextWithin when no event has arrived for so long.
	ErrSilent = errors.New("codex app-server is silent")
)

// JSON-RPC error codes of codex app-server 0.169. Unknown methods, unknown threads and bad parameters all arrive as
// CodeInvalidRequest.
const (
	CodeInvalidRequest = -32600
	codeMethodNotFound = -32601
	CodeInternalError  = -32603
	CodeOverloaded     = -32001
)

// isOverloaded reports whether codex asks to try again later.
func isOverloaded(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Code == CodeOverloaded
}

// isRefused reports whether codex will refuse the same request again, for example for a thread that it has unloaded.
func isRefused(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Code != CodeOverloaded && !e.ShuttingDown()
}
