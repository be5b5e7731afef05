// Package appservertest is a codex app-server that needs no codex: the same
// WebSocket over a unix socket, the same methods, the same notifications in the
// same order with the same fields, and a script instead of a model. A test
// compares it with a transcript of the real one.
//
// In a test:
//
//	srv := &appservertest.Server{Handler: appservertest.Reply("hello ", "world")}
//	path := appservertest.Start(t, srv)
//
// With the zero Handler it is a demo worker that answers politely.
package appservertest
