// Package workers holds everything known of each codex worker. A Worker is the
// one place where two truths meet: what the socket says (connection, handshake,
// in-flight turns) and what systemd says (unit state, last result). A Pool
// picks among them and takes the snapshot that all probes, metrics and
// admission read.
//
// Nothing here starts, stops or restarts a process: systemd does.
package workers
