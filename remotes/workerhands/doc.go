// Package workerhands has the hands of native workers of the API: a session of codex-runner for each conversation, in
// which codex executes commands. It is the main process of codex-hands@.service, which keeps the sessions of a worker
// and relays between its codex and them, and the client by which the daemon asks for a session.
package workerhands
