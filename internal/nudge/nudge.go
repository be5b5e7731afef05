// Package nudge wakes a goroutine that waits for changes, and never blocks the one that makes them.
package nudge

// Nudge holds a token when there may be something to look at.
type Nudge chan struct{}

// New returns a nudge without a token.
func New() Nudge { return make(Nudge, 1) }

// Touch puts the token there. It does not block.
func (n Nudge) Touch() {
	select {
	case n <- struct{}{}:
	default: // the token that is there covers this change, too
	}
}
