// Package inflight counts the load of the processes of a row of reloads. Together
// they hold max_inflight of a worker and the limits of an API key, by these rules:
//
//   - The new process gets the load of the old ones with take, so that it counts them
//     before it serves, and gets every later change. When the socket closes, nothing is
//     left of that load.
//   - The process without a successor takes a place at once. Any other process counts the
//     place first, sends it as a claim with a number, and waits until its successor has
//     confirmed that claim. The confirmation has the successor's own load. If that
//     leaves no room, the claimer gives the place back. So two processes that take the last
//     place at the same time never both keep it.
//   - A process forwards a claim of its predecessor to its successor as one of its own.
//   - A predecessor in which requests wait gets every change, too.
//
// codex-proxy 0.1.0 sends no load. As a predecessor it answers every change of the drains
// with its turns: its successor sends empty changes, and counts its turns against
// max_inflight, but against no limit of a key. As a successor it confirms no claim:
// claimBound ends the first wait and all later ones, and each of the two counts alone.
package inflight

import (
	"log/slog"
	"sync"
	"time"
)

// claimBound is the longest that a claim waits for its confirmation. After it, turns go on
// without one, until the successor sends its load again.
const claimBound = 5 * time.Second

// Settings connect a Counter to the process.
type Settings struct {
	// Own returns the load of this process, without any claim.
	Own func() Load
	// Elsewhere takes over the sum of the loads of other processes. Calls of it do
	// not overlap.
	Elsewhere func(Load)
	// Changed reports that a neighbour must get the load. It must not block.
	Changed func()
	// Freed reports that other processes may have given places back. It must not block: a
	// claim is made under the lock of the queue that waits for places.
	Freed  func()
	Logger *slog.Logger
}

// Counter has the loads of the processes before and after this one. All methods may be
// called from any goroutine.
type Counter struct {
	settings Settings

	mu            sync.Mutex
	before, after Load
	claiming      bool          // a successor counts, too
	unconfirmed   bool          // it has not confirmed a claim in time
	claims        uint64        // that this process has made, for its predecessors, too
	received      uint64        // claims of the predecessor
	forwarded     uint64        // the claim of this process that has the last received one
	confirmed     uint64        // received claims that are confirmed
	changed       chan struct{} // closed and replaced when a claim may go on
}

// New returns the counter of a process that has no neighbours yet.
func New(settings Settings) *Counter {
	return &Counter{settings: settings, changed: make(chan struct{})}
}

// Claim is workers.Settings.Claim and limits.Settings.Claim: it returns when the successor
// counts the place that was just taken, or false if there is no successor.
func (l *Counter) Claim() bool {
	l.mu.Lock()
	if !l.claiming {
		l.mu.Unlock()
		return false
	}
	l.claims++
	claim := l.claims
	l.mu.Unlock()
	l.settings.Changed()
	l.await(claim)
	return true
}

// await returns when the successor has confirmed the claim, or is not expected to.
func (l *Counter) await(claim uint64) {
	bound := time.NewTimer(claimBound)
	defer bound.Stop()
	for {
		l.mu.Lock()
		done, changed := !l.claiming || l.unconfirmed || l.after.Confirmed >= claim, l.changed
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-bound.C: // the successor hangs, or its version confirms no claim
			l.update(func() { l.unconfirmed = true })
			l.settings.Logger.Warn("the process that took over does not answer: each counts what is in flight alone")
		}
	}
}

// update changes the state that claims wait for.
func (l *Counter) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// SetClaiming sets whether claims are made, as a successor counts them.
func (l *Counter) SetClaiming(claiming bool) {
	l.update(func() { l.claiming = claiming })
}

// SetBefore takes over the load of the processes before this one.
func (l *Counter) SetBefore(load Load) {
	l.mu.Lock()
	l.before = load
	if load.Claims > l.received && l.claiming {
		l.claims++
		l.forwarded = l.claims
	}
	l.received = load.Claims
	l.mu.Unlock()
	l.count()
	l.settings.Freed()
	l.settings.Changed()
}

// SetAfter takes over the load of the processes after this one.
func (l *Counter) SetAfter(load Load) {
	l.mu.Lock()
	l.after.Workers, l.after.Keys = load.Workers, load.Keys
	l.mu.Unlock()
	l.count() // before a claim goes on
	l.update(func() { l.after.Confirmed, l.unconfirmed = max(l.after.Confirmed, load.Confirmed), false })
	l.settings.Freed()
	l.settings.Changed()
}

// count holds the lock meanwhile: an older sum must not overwrite a newer one.
func (l *Counter) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings.Elsewhere(l.before.Plus(l.after))
}

// ForSuccessor returns the load that the successor has to count.
func (l *Counter) ForSuccessor() Load {
	l.mu.Lock()
	claims, before := l.claims, l.before // read before Own, which then includes the claimed places
	l.mu.Unlock()
	load := l.settings.Own().Plus(before)
	load.Claims = claims
	return load
}

// ForPredecessor returns the load that the predecessor has to count. It reports false if
// the predecessor needs none.
func (l *Counter) ForPredecessor() (load Load, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	confirmed := l.received
	if l.claiming && !l.unconfirmed && l.after.Confirmed < l.forwarded {
		confirmed = l.confirmed
	}
	due = l.before.Waiting || confirmed > l.confirmed
	l.confirmed = confirmed
	if !due {
		return load, false
	}
	load = l.settings.Own().Plus(l.after)
	load.Confirmed = confirmed
	return load, true
}
