// Package remotes keeps codex sessions that outlive their clients. A remote is a unit of systemd with one codex
// app-server; the Manager is codex's first client, in the unit's main process. It records which turns run, continues
// those that the end of codex has cut, and knows whether anybody is attached.
//
// Codex dies with the process of its Manager, so a Manager serves one codex. State that must survive both lies in the
// turn journal, the file turns.json in the state directory of the unit.
package remotes
