// Package hands keeps hands: a session of codex-runner in which `codex exec-server` executes the
// commands, patches and accesses to files of a codex, which has neither of its own. It has the session go on
// when its exec-server ends, and relays between the two, so that it sees each command.
package hands
