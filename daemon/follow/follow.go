// Package follow has workers and remotes change to another codex between their turns: to one that has been installed
// and has passed its trial, or back to the one before if turns on that fail.
package follow

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/probes"
	"codex-proxy/workers/upgrade"
)

const (
	// tickEvery is the time between two steps while something changes, and lookEvery that between two looks at the
	// installed codex, and between two steps in which there is nothing else to do.
	tickEvery = 500 * time.Millisecond
	lookEvery = 3 * time.Second
	// lookLimit bounds the growing time between two looks that fail: each may fill the disk with half a copy.
	lookLimit = 5 * time.Minute
	// endBound is how long a worker may take to end that was told to, and readyBound how long until it is ready again.
	endBound   = 10 * time.Second
	readyBound = 40 * time.Second
	// remoteAgain is the pause after a remote that had turns.
	remoteAgain = 2 * time.Second
)

// Pool is the workers, as workers.Pool has them.
type Pool interface {
	Snapshot() probes.Snapshot
	DrainForRenewal(name string, drain bool) error
	Renew(name, why string) error
	Want(name string) error
}

// Root are the steps of root, as upgrade.Client asks for them.
type Root interface {
	Look(ctx context.Context) (upgrade.Outcome, error)
	Back(ctx context.Context, b upgrade.Back) error
}

// Installed is the codex that is installed.
type Installed struct {
	File string // identifies the program: another one has another text
	Copy string // its name; empty: it has none yet
	Held bool   // it has failed
}

// Settings configure a Follower.
type Settings struct {
	Store  *copies.Store
	Follow bool // the installed codex is to be used
	Fixed  bool // the settings name the only version, which the next start would take again: there is no way back
	// Installed looks the installed codex up, without reading it.
	Installed func() (Installed, error)
	Root      Root
	Pool      Pool
	// Edited is the time of the last change of a worker's file; zero: it is unknown.
	Edited func(worker string) time.Time
	// Remotes are the remotes, and RenewRemote has one without turns start again; false: it has turns.
	Remotes     func() []probes.Remote
	RenewRemote func(ctx context.Context, name string) (done bool, err error)
	// Predecessor reports whether another process still has turns.
	Predecessor func() bool
	Logger      *slog.Logger
}

// Follower has the changes made. One goroutine runs it; Ended and Collect may be called from any.
type Follower struct {
	Settings
	probation *probation

	state   copies.State
	looking chan struct{} // holds an element while root is asked; its holder has the next five
	asked   string        // the file of the last look, and the copy in use
	looked  string        // the same of the last one that has succeeded
	fault   string        // of the last look
	pause   time.Duration // after it, if it has failed
	again   time.Time     // the end of the pause
	lookAt  time.Time     // the earliest next look
	last    string        // the installed file at the last one

	change  *change
	wanted  time.Time         // when a standby was started to take the turns of the next worker
	settled map[string]string // by unit: the copy for which it was changed last
	retryAt time.Time         // of remotes
	seen    map[string]seen   // by the unit of a remote
	began   time.Time
	metrics
}

// change is the change of one worker.
type change struct {
	name, unit string
	to         string    // the copy
	invocation string    // of the run that ends
	ordered    time.Time // to end; zero: it has turns
	tried      time.Time // the first order that it did not take
}

// New returns a follower that has seen nothing.
func New(s Settings) *Follower {
	f := &Follower{Settings: s, looking: make(chan struct{}, 1), settled: map[string]string{}, began: time.Now(),
		metrics: newMetrics()}
	f.probation = newProbation(s.Store.Of)
	return f
}

// Run makes the changes until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	defer func() { f.looking <- struct{}{} }() // the look in flight has ended, because of ctx
	for {
		wait := lookEvery
		if f.step(ctx, time.Now()) {
			wait = tickEvery
		}
		next.Reset(wait)
		select {
		case <-next.C:
		case <-f.probation.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// step does the work that is due, and reports whether more will be soon.
func (f *Follower) step(ctx context.Context, now time.Time) (soon bool) {
	state, err := f.Store.State()
	if err != nil { // it is just being written, or damaged: the starts of units say so
		return false
	}
	if state.InUse != f.state.InUse || state.Changed != f.state.Changed {
		on := state
		if f.Fixed {
			on.Before = ""
		}
		f.probation.begin(on)
		f.retryAt = time.Time{}
	}
	f.state = state
	f.look(ctx, now)
	if f.Predecessor() || state.InUse == "" {
		return false
	}
	countRemotes(f, now)
	if bad, reason := f.probation.verdict(); bad == state.InUse && bad != "" {
		f.back(ctx, bad, reason)
		return true
	}
	if name, is := f.probation.again(); is && name != state.InUse {
		// If root does not, it stays held back.
		_ = f.Root.Back(ctx, upgrade.Back{Copy: name, Undo: true})
		return true
	}
	switch {
	case f.change != nil:
		f.proceed(ctx, now)
	case !f.next(now):
		f.nextRemote(ctx, now)
		return false
	}
	return true
}

// look asks root to look at the installed codex if that is another one. It does not wait.
func (f *Follower) look(ctx context.Context, now time.Time) {
	if !f.Follow || f.state.Pinned != "" || f.state.InUse == "" || now.Before(f.lookAt) { // a start takes the first one
		return
	}
	f.lookAt = now.Add(lookEvery)
	installed, err := f.Installed()
	if err != nil {
		return // doctor and the starts of units say so
	}
	f.held.Store(installed.Held)
	known := installed.Held || installed.Copy != "" && installed.Copy == f.state.InUse
	before := f.last
	f.last = installed.File
	if known || installed.File == "" || before != installed.File { // npm may still be writing its files
		return
	}
	select {
	case f.looking <- struct{}{}:
	default:
		return
	}
	question := installed.File + " " + f.state.InUse // an operator may have changed that since
	go func() {
		defer func() { <-f.looking }()
		if f.asked != question {
			f.asked, f.pause, f.again = question, 0, time.Time{}
		}
		if question != f.looked && !now.Before(f.again) {
			f.ask(ctx, question, now)
		}
	}()
}

// ask asks root to look at the installed codex, and waits for its trial.
func (f *Follower) ask(ctx context.Context, question string, now time.Time) {
	_, err := f.Root.Look(ctx)
	switch {
	case ctx.Err() != nil, errors.Is(err, fs.ErrNotExist): // this machine has no unit for it, as in a container
		return
	case err == nil:
		f.fault, f.looked = "", question
		return
	case err.Error() != f.fault:
		f.fault = err.Error()
		f.Logger.Warn("cannot look at the codex that is installed", "error", err)
	}
	f.pause = min(max(2*f.pause, lookEvery), lookLimit) //nolint:mnd // it doubles
	f.again = now.Add(f.pause)
}

// back has root go back to the copy before.
func (f *Follower) back(ctx context.Context, name, reason string) {
	if err := f.Root.Back(ctx, upgrade.Back{Copy: name, Reason: reason}); err != nil {
		f.Logger.Warn("cannot go back to the codex before", "copy", name, "error", err)
		f.probation.forget()
		f.drain(name, false)
		return
	}
	f.backs.Inc()
	f.change = nil // its worker takes no turns until it changes back
}

// drop gives up the change of a worker.
func (f *Follower) drop() {
	if f.change != nil {
		_ = f.Pool.DrainForRenewal(f.change.name, false) // it is a name of the pool
		f.change = nil
	}
}

// other returns the copy that the present run of a unit has, and whether the unit is to change to the one in use.
func (f *Follower) other(unit string) (name string, other bool) {
	name, ok := f.Store.Of(unit)
	return name, ok && name != f.state.InUse && f.settled[unit] != f.state.InUse && !copies.Own(f.Store, unit)
}
