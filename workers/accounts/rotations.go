package accounts

import (
	"maps"
	"sync"
	"time"
)

// maxRotations bounds the rotations that outlive their process: a reload passes them on in
// a packet, together with all else.
const maxRotations = 400

// Rotated is the last rotation of a conversation.
type Rotated struct {
	Account string    `json:"account"` // where the conversation is since
	At      time.Time `json:"at"`
}

// over reports whether the conversation may rotate again.
func (r Rotated) over(now time.Time) bool { return now.Sub(r.At) >= RotationPause }

// Rotations are the last rotations of conversations. Its methods are safe for concurrent use.
type Rotations struct {
	mu   sync.Mutex
	last map[string]Rotated // by the conversation
	now  time.Time          // the latest that any method was given
	puts uint64
}

// Put records that a conversation has rotated, so that its pause outlives this process.
func (r *Rotations) Put(conversation string, to Rotated) {
	if conversation == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = later(r.now, to.At)
	r.last[conversation] = to
	r.drop()
	r.puts++
}

// Find returns a conversation in its pause, for which the operator has switched the account in use that often; a zero
// one if no rotation is known.
func (r *Rotations) Find(conversation string, switches uint64) Conversation {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[conversation]
	if !known {
		return Conversation{}
	}
	return Conversation{Account: last.Account, Rotated: last.At, Switches: switches}
}

// revision grows with each rotation.
func (r *Rotations) revision() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.puts
}

// restore takes over the rotations of another process, on the monotonic clock of this one:
// a clock that is set back makes no pause longer. A time that lies ahead is from a clock
// that was wrong.
func (r *Rotations) restore(saved map[string]Rotated, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = later(r.now, now)
	for conversation, before := range saved {
		before.At = now.Add(min(0, before.At.Sub(now)))
		if before.At.After(r.last[conversation].At) {
			r.last[conversation] = before
		}
	}
	r.drop()
}

// drop drops the rotations with a pause that is over, and the oldest of too many. It is called under the lock.
func (r *Rotations) drop() {
	if len(r.last) <= maxRotations {
		return
	}
	maps.DeleteFunc(r.last, func(_ string, at Rotated) bool { return at.over(r.now) })
	for len(r.last) > maxRotations {
		oldest, first := "", true
		for conversation, at := range r.last {
			if first || at.At.Before(r.last[oldest].At) {
				oldest, first = conversation, false
			}
		}
		delete(r.last, oldest)
	}
}

// saved are the rotations still in their pause; nil without any.
func (r *Rotations) saved(now time.Time) map[string]Rotated {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = later(r.now, now)
	saved := maps.Clone(r.last)
	maps.DeleteFunc(saved, func(_ string, at Rotated) bool { return at.over(now) })
	if len(saved) == 0 {
		return nil
	}
	return saved
}
