package auth

import "time"

// fresh is how long keys of a database are taken for all that there are: some exchanges with it.
const fresh = 5 * time.Second

// dated is when a database has had the keys, and how long they are used after that.
type dated struct {
	at   time.Time
	most time.Duration
}

// Confirm records that a database had these keys at a time. They may be used for most after it. Keys that were
// never confirmed are of a file, and have no age.
func (k *Keys) Confirm(at time.Time, most time.Duration) {
	if now := time.Now(); at.After(now) { // the clock has been set back since
		at = now
	}
	k.dated.Store(&dated{at, most})
}

// Shared reports whether a database has the keys. Without a key it lets nobody in.
func (k *Keys) Shared() bool { return k != nil && k.dated.Load() != nil }

// Age is the time since the last Confirm; 0 without any.
func (k *Keys) Age() time.Duration {
	if !k.Shared() {
		return 0
	}
	return time.Since(k.dated.Load().at)
}

// Outdated reports whether the keys are too old to be used.
func (k *Keys) Outdated() bool { return k.Age() > 0 && k.Age() > k.dated.Load().most }

// Doubtful reports whether the database may have keys by now that are not here.
func (k *Keys) Doubtful() bool { return k.Age() > fresh }
