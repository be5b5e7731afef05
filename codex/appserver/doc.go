// Package appserver is a client for `codex app-server`: its threads and turns, on a connection of package rpc.
//
// One Conn per worker is shared by all requests. Its owner calls Dial, runs Conn.Run in a goroutine, calls
// Conn.Initialize once and then uses Call, Models and StartTurn from any goroutine:
//
//	conn, err := appserver.Dial(ctx, path, appserver.Options{Logger: log})
//	go func() { lost <- conn.Run(ctx) }()
//	_, err = conn.Initialize(ctx)
//	turn, err := conn.StartTurn(ctx, appserver.TurnRequest{Model: "gpt-5.5", Items: items})
//	defer turn.Close(ctx)
//	for { event, err := turn.Next(ctx); … }
//
// The messages are hand-written structs that name only the fields in use and ignore the rest; a test checks every one
// of them against the schema that the installed codex generates.
package appserver
