package queue

import "codex-proxy/runner/api/wire"

// Share bounds the part of the service that one user has at the same time, so that no user takes it from all others. 0
// is no bound. Root has no bounds.
type Share struct {
	Sessions int   // commands that run
	Queued   int   // commands that wait
	Stdin    int64 // bytes of the standard inputs of commands that have not ended
}

// Exempt reports that a user has no bounds of its own.
func Exempt(user uint32) bool { return user == 0 }

// mayRun reports whether a user may have one more command run.
func (s Share) mayRun(user uint32, running int) bool {
	return s.Sessions == 0 || Exempt(user) || running < s.Sessions
}

// mayQueue returns an error if a user may not have n more commands wait.
func (s Share) mayQueue(user uint32, waitingOf func(uint32) int, n int) error {
	if s.Queued == 0 || Exempt(user) {
		return nil
	}
	waiting := waitingOf(user)
	if waiting+n <= s.Queued {
		return nil
	}
	return wire.Refuse(wire.QueueFull,
		"try again when some have ended, cancel some, or have root raise max_queued of [user] in runner.toml",
		"%d of your commands wait already, of at most %d", waiting, s.Queued)
}
