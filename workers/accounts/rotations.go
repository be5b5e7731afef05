package accounts

import (
	"maps"
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

// Rotate records that a conversation has rotated, so that its pause outlives this process.
func (b *Book) Rotate(conversation string, to Rotated) {
	if conversation == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = later(b.now, to.At)
	b.rotations[conversation] = to
	b.dropRotations()
	b.revision++
}

// Rotation is the record of a conversation in a Book: that it is in its pause, or nothing.
func (b *Book) Rotation(conversation string) Conversation {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.rotations[conversation]
	if !known {
		return Conversation{}
	}
	return Conversation{Account: last.Account, Rotated: last.At, Switches: b.switches}
}

// restoreRotations takes over the rotations of another process, on the monotonic clock of this one:
// a clock that is set back makes no pause longer. A time that lies ahead is from a clock
// that was wrong.
func (b *Book) restoreRotations(saved map[string]Rotated, now time.Time) {
	for conversation, before := range saved {
		before.At = now.Add(min(0, before.At.Sub(now)))
		if before.At.After(b.rotations[conversation].At) {
			b.rotations[conversation] = before
		}
	}
	b.dropRotations()
}

// dropRotations drops the rotations with a pause that is over, and the oldest of too many.
func (b *Book) dropRotations() {
	if len(b.rotations) <= maxRotations {
		return
	}
	maps.DeleteFunc(b.rotations, func(_ string, r Rotated) bool { return r.over(b.now) })
	for len(b.rotations) > maxRotations {
		oldest, first := "", true
		for conversation, r := range b.rotations {
			if first || r.At.Before(b.rotations[oldest].At) {
				oldest, first = conversation, false
			}
		}
		delete(b.rotations, oldest)
	}
}

// savedRotations are the rotations still in their pause; nil without any.
func (b *Book) savedRotations() map[string]Rotated {
	saved := maps.Clone(b.rotations)
	maps.DeleteFunc(saved, func(_ string, r Rotated) bool { return r.over(b.now) })
	if len(saved) == 0 {
		return nil
	}
	return saved
}
