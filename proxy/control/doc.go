// Package control is what an operator may ask of the running daemon: its status,
// that a worker takes no new turns, and that other API keys are good. It speaks HTTP over a unix socket that
// root alone can reach and that exists only while the daemon listens on it, so
// that asking never starts a daemon which somebody has stopped.
//
// Server answers; Client asks, for the commands of codex-proxy.
package control
