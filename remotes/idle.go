package remotes

import "time"

// idle reports whether a remote has been without users and turns for bound; 0 bounds nothing.
func idle(s *state, bound time.Duration, now time.Time) bool {
	return bound > 0 && s.link != nil && len(s.clients) == 0 && !s.busy() && now.Sub(s.since) >= bound
}
