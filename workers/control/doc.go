// Package control lets an operator command the running daemon: read its status,
// drain workers, and replace the API keys. It speaks HTTP over a unix socket that
// root alone can reach and that exists only while the daemon listens on it, so a
// command never starts a stopped daemon.
//
// Server runs in the daemon; Client serves the commands of codex-proxy.
package control
