// Package rpc is a connection to `codex app-server`: JSON-RPC 2.0 with the "jsonrpc" member left out, one message per
// WebSocket text message, over a unix socket. It knows no method of codex; package appserver does.
//
// The owner of a Conn calls Dial, runs Conn.Run in a goroutine, and then uses the other methods from any goroutine.
package rpc
