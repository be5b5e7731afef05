// Package runner runs commands in sessions: it serves the requests for sessions, and joins the parts that do the work.
// Package queue has the commands that wait, runs those that run, workspaces, repositories and environments the things
// that they need.
//
// Each part has its own lock, and calls no other part under it, with three exceptions: under the lock of queue, runs is
// locked and the store is written; inputs writes the store while a command gets its input; a transaction of the store
// locks workspaces. So the order is queue or inputs, then the store, then workspaces; and queue, then runs.
package runner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/steady"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/files"
	"codex-proxy/runner/inputs"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/repositories"
	"codex-proxy/runner/runs"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
	"codex-proxy/runner/workspace"
	"codex-proxy/runner/workspaces"
)

// Settings of a Runner.
type Settings struct {
	Store    *store.Store
	Units    systemd.Units
	Watcher  *logs.Watcher // runs as long as Run
	StateDir string        // paths.StateDir
	// RuntimeDir is paths.RuntimeDir, and Secrets paths.Secrets.
	RuntimeDir, Secrets string
	Logger              *slog.Logger
	Registry            prometheus.Registerer // gets the metrics; nil for none
	Version             string                // of the program, for the metrics

	Network      bool // sessions may have it
	Limits       Limits
	Artifacts    artifact.Limits // of each command
	Hooks        *session.Hooks  // nil: no hooks
	Sandbox      sandbox.Settings
	Environments environments.Config
	MaxSessions  int // commands that run at the same time
	MaxQueued    int // commands that wait
	Share        queue.Share
	LeastFree    uint64 // bytes on the disk of StateDir without which no command starts
	Workspaces   int    // at least MaxSessions
	// WorkspaceDisk bounds the bytes of all workspaces that no session leases.
	WorkspaceDisk int64
	Repositories  repositories.Config
	IdleTimeout   time.Duration // after it a session without a command is closed
	// MaxIdleTimeout is the longest time that a session may ask for in its place.
	MaxIdleTimeout time.Duration
	Retention      time.Duration // after it a closed session is removed
}

// Runner runs commands. Its methods are safe for concurrent use.
type Runner struct {
	Settings
	*Sessions

	Queue        *queue.Queue
	Runs         *runs.Runs
	Repositories *repositories.Repositories

	environments *environments.Environments
	systemd      *systemd.Client
	bounds       *bounds
	expiry       expiry
	since        time.Time
	clock        steady.Clock // by which sessions are old
	pings        chan struct{}
}

// New returns a Runner, which starts nothing until Run.
func New(s Settings) *Runner {
	r := &Runner{Settings: s, since: time.Now(), pings: make(chan struct{})}
	f := files.Files{StateDir: s.StateDir, RuntimeDir: s.RuntimeDir, Secrets: s.Secrets}
	evicted := newEvictions(s.Registry, s.Logger)
	r.bounds = newBounds(s.Logger)
	r.Queue = queue.New(queue.Settings{
		MaxSessions: s.MaxSessions, MaxQueued: s.MaxQueued, Workspaces: s.Workspaces, Share: s.Share,
		Registry: s.Registry,
	})
	r.systemd = systemd.New(s.Units, s.Logger, r.Queue.Announce)
	r.Repositories = repositories.New(repositories.Settings{
		Config: s.Repositories, Store: s.Store.Repositories, Systemd: r.systemd, Files: f, Logger: s.Logger,
		Registry: s.Registry, Announce: r.Queue.Announce, Trim: r.bounds.check, Evicted: evicted.of(evictedRepository),
	})
	r.environments = environments.New(environments.Settings{
		Network: s.Network,
		Config:  s.Environments, Store: s.Store.Environments, Systemd: r.systemd, Files: f, Logger: s.Logger,
		Registry: s.Registry, Announce: r.Queue.Announce, Evicted: evicted.environment,
	})
	in := inputs.New(f, s.Share.Stdin)
	r.Sessions = &Sessions{
		store: s.Store, files: f, queue: r.Queue, inputs: in, repositories: r.Repositories,
		environments: r.environments, checks: checks{s.Network, s.Limits}, sandbox: s.Sandbox, retention: s.Retention, logger: s.Logger,
		room: r.room, trim: r.bounds.check,
	}
	leases := workspaces.New(workspaces.Settings{
		Store: s.Store.Workspaces, Systemd: r.systemd, Changed: r.Queue.Changed, CloseIdlest: closer{r.Sessions}.closeIdlest,
		Bounds: workspace.Bounds{Slots: s.Workspaces, Bytes: s.WorkspaceDisk}, Evicted: evicted.of(evictedWorkspace),
	})
	r.bounds.parts = []func(context.Context) error{r.Repositories.Bound, leases.Bound}
	r.Runs = runs.New(runs.Settings{
		Queue: r.Queue, Sessions: s.Store.Sessions, Commands: s.Store.Commands, Systemd: r.systemd, Files: f,
		Watcher: s.Watcher, Logger: s.Logger, Registry: s.Registry, Workspaces: leases, Environments: r.environments,
		Inputs: in, Artifacts: s.Artifacts, Hooks: s.Hooks, Sandbox: s.Sandbox.Given(), Full: r.full, Damaged: s.Store.Repositories.Damaged,
		Close: func(ctx context.Context, id string) { closer{r.Sessions}.close(ctx, id) },
	})
	r.runs = r.Runs
	r.expiry = expiry{Sessions: r.Sessions, systemd: r.systemd, idle: s.IdleTimeout, longest: s.MaxIdleTimeout}
	if s.Registry != nil {
		s.Registry.MustRegister(collector{r})
	}
	return r
}

// Recover finds the sessions of an earlier daemon. It is called once, before Run, and returns how many commands there
// are that have not ended.
func (r *Runner) Recover(ctx context.Context) (int, error) {
	r.Repositories.Clear()
	if err := r.removeForgotten(ctx); err != nil {
		return 0, err
	}
	if err := r.environments.Recover(ctx); err != nil {
		return 0, err
	}
	return r.Runs.Recover(ctx)
}

// reconcileEvery bounds how long the end of a unit that leaves no file stays unnoticed, and how late sessions expire.
const reconcileEvery = 10 * time.Second

// Run runs commands until ctx is done; Recover is to be called before it. Units that run then go on.
func (r *Runner) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	tasks.Go(func() { r.expiry.removeHomes(ctx) })
	tasks.Go(func() { r.bounds.keep(ctx) })
	for {
		for _, due := range []func() []func(context.Context){r.Repositories.Due, r.Runs.Due, r.environments.Due} {
			for _, work := range due() {
				tasks.Go(func() { work(ctx) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.Queue.Wake():
		case <-r.pings:
		case <-tick.C:
			r.Runs.Reconcile(ctx)
			r.expiry.expire(ctx, r.clock.Now())
			r.environments.Bound(ctx)
			r.bounds.check()
		}
	}
}

// Alive returns nil if the loop of Run answers before ctx ends.
func (r *Runner) Alive(ctx context.Context) error {
	select {
	case r.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the queue of commands does not answer: %w", ctx.Err())
	}
}
