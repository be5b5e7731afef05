// Package runs runs commands: it starts their units, follows them and records how they ended. It starts no process:
// systemd does.
//
// A command belongs to its unit as soon as that has started, and its end to the files that root writes: the daemon may
// die and find both again (see Recover).
package runs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/runner/artifact"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/files"
	"codex-proxy/runner/inputs"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
	"codex-proxy/runner/workspaces"
)

// Settings of Runs.
type Settings struct {
	Queue    *queue.Queue
	Sessions store.Sessions
	Commands store.Commands
	Systemd  *systemd.Client
	Files    files.Files
	Watcher  *logs.Watcher
	Logger   *slog.Logger
	Registry prometheus.Registerer // gets the metrics; nil for none

	Workspaces   *workspaces.Workspaces
	Environments *environments.Environments
	Inputs       *inputs.Inputs
	Artifacts    artifact.Limits // of each command
	Hooks        *session.Hooks  // nil: no hooks
	Sandbox      *sandbox.Given  // of every command; nil for nothing

	Full    func() bool                                        // whether the disk has no room for a command
	Damaged func(ctx context.Context, repository string) error // records that a mirror lacks something
	Close   func(ctx context.Context, session string)          // closes a session that has no command any more
}

// Runs has the commands that run. Its methods are safe for concurrent use.
type Runs struct {
	Settings

	metrics *metrics

	mu      sync.Mutex // guards the rest; nothing else is locked under it, and the queue may be locked around it
	running map[queue.Key]*run
	found   []*run // by Recover, for Due
}

// New returns Runs.
func New(s Settings) *Runs {
	return &Runs{Settings: s, metrics: newMetrics(s.Registry), running: map[queue.Key]*run{}}
}

// Due takes the commands that are to be started, or followed after Recover, each to run in a goroutine.
func (r *Runs) Due() (work []func(context.Context)) {
	r.mu.Lock()
	for _, c := range r.found {
		work = append(work, c.resume)
	}
	r.found = nil
	r.mu.Unlock()
	begin := func(c store.Live) {
		begun := r.add(c)
		begun.begun = time.Now()
		work = append(work, func(ctx context.Context) { begun.supervise(ctx, begun.launch) })
	}
	for !r.Full() && r.Queue.Next(begin) { // a full disk is looked at again every few seconds
	}
	return work
}

// add adds a command that runs.
func (r *Runs) add(l store.Live) *run {
	c := newRun(r, l)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[queue.KeyOf(l)] = c
	return c
}

func (r *Runs) find(k queue.Key) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[k]
}

func (r *Runs) all() []*run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.running))
}

// finish removes a command after its unit has ended, and lets the next one of its session follow.
func (r *Runs) finish(ctx context.Context, c *run) {
	r.mu.Lock()
	delete(r.running, queue.KeyOf(c.Live))
	r.mu.Unlock()
	if r.Queue.Finish(c.Live) {
		r.Close(ctx, c.Session)
	}
}

// Ended returns a channel that is closed when the command's end is stored, which may be before the end of its unit. It
// is closed already if the command does not run.
func (r *Runs) Ended(k queue.Key) <-chan struct{} {
	if c := r.find(k); c != nil {
		return c.ended
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Cancel ends a command: one that waits at once, one that runs within its grace. The error is store.ErrState if it has
// ended. by names the user.
func (r *Runs) Cancel(ctx context.Context, k queue.Key, by string) error {
	if err := r.Commands.Cancel(ctx, k.Session, k.Number, by); err != nil {
		return err
	}
	owner, waited, closing := r.Queue.Remove(k)
	if !waited {
		if c := r.find(k); c != nil && c.state.cancel(by) {
			c.ask(ctx, by)
		}
		return nil // one that is not reached yet is asked by follow
	}
	ending := endingOf(outcome.Facts{CancelledBy: by})
	err := r.Commands.End(ctx, k.Session, k.Number, ending, time.Now())
	if err == nil {
		r.recordEnded(k, paths.SessionUnit(k.Session), ending)
		r.Inputs.Remove(owner, k)
	}
	r.Queue.Announce()
	if closing {
		r.Close(ctx, k.Session)
	}
	return err
}
