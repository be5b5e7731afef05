// Package workers holds the state of every codex worker. A Worker joins two
// sources: its socket (connection, handshake, turns in flight) and systemd (unit
// state, last result). A Pool gives out the slots of the workers, queues the
// requests for which there is none, and takes the snapshot that probes, metrics
// and admission read.
//
// The package starts, stops and restarts no process: systemd does.
package workers
