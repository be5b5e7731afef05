// Package runner runs commands in sessions. It queues them, leases workspaces, starts the units of sessions under their
// limits, and records how the commands ended. It starts no process: systemd does.
//
// A command belongs to its unit as soon as that has started, and its end to the files that root writes: the daemon may
// die and find both again (see recover).
package runner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/steady"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/units"
)

// Units is systemd: a *units.Manager.
type Units interface {
	StartWith(ctx context.Context, unit string, properties ...units.Property) error
	Start(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	List(ctx context.Context, patterns ...string) ([]units.State, error)
}

// Settings of a Runner.
type Settings struct {
	Store    *store.Store
	Units    Units
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
	Environments Environments
	MaxSessions  int // commands that run at the same time
	MaxQueued    int // commands that wait
	Share        Share
	LeastFree    uint64 // bytes on the disk of StateDir without which no command starts
	Workspaces   int    // at least MaxSessions
	// WorkspaceDisk bounds the bytes of all workspaces that no session leases.
	WorkspaceDisk int64
	Repositories  Repositories
	IdleTimeout   time.Duration // after it a session without a command is closed
	Retention     time.Duration // after it a closed session is removed
}

// Runner runs commands. Its methods are safe for concurrent use.
type Runner struct {
	Settings

	metrics *metrics
	since   time.Time
	clock   steady.Clock  // by which sessions and repositories are old
	wake    chan struct{} // holds one element if there may be a command or a fetch to start
	untidy  chan struct{} // holds one element if mirrors or workspaces may be beyond their bounds
	pings   chan struct{}
	tasks   sync.WaitGroup
	found   []*run // by Recover, for Run
	sweeps  sweeps
	stdin   sync.Mutex // held while a command gets its standard input

	mu    sync.Mutex // guards state
	state state
}

// state has the commands that have not ended. All else is in the store.
type state struct {
	queue    queue
	sessions map[string]*line
	running  map[key]*run
	perUser  map[uint32]int // running
	waiting  int            // commands of all lines
	inputs   inputs
	// The jobs of environments that have not ended, by their keys, and the ones that Run has to start.
	environments    map[string]*environmentJob
	environmentJobs []*environmentJob
	// The fetches that wait, how many run, and the mirrors that are in use at the moment.
	fetches  []*fetch
	fetching int
	mirrors  map[string]*mirror
	changed  chan struct{} // closed and replaced at each change of a command
	fault    error         // why no command can start
}

// line has the commands of a session in their order.
type line struct {
	owner   uint32
	network bool
	waiting []waiting
	queued  bool // the first one is in the queue
	running bool
	leased  bool // it has a workspace, or gets one now
	closing bool // the session is to be closed at the end of its last command
}

type waiting struct {
	number int
	ready  bool      // it has its standard input
	since  time.Time // when it was queued
}

// run is a command from shortly before the start of its unit until the unit has ended.
type run struct {
	store.Live

	cancelled string        // the user that cancels it; guarded by Runner.mu
	started   bool          // its unit is, or was, active; guarded by Runner.mu
	reached   bool          // its main process can be asked, or has ended; guarded by Runner.mu
	ran       bool          // its start is recorded; belongs to follow and, after that, to attend
	gone      chan struct{} // closed when systemd has no such unit any more
	lost      bool          // gone is closed; belongs to the goroutine of Run
	ended     chan struct{} // closed when its end is in the store
	begun     time.Time     // when it left the queue; zero if Recover has found it

	// Of the guard. All but the channel is guarded by Runner.mu.
	guarded  chan struct{} // holds one element if deadline has changed
	deadline time.Time     // until when the command has to have ended; zero for none
	grace    time.Duration
	over     bool // its main process has reported the end
	overdue  bool // the guard has had the unit stopped, because of the time
}

// New returns a Runner, which starts nothing until Run.
func New(s Settings) *Runner {
	r := &Runner{
		Settings: s, metrics: newMetrics(s.Registry), since: time.Now(), wake: make(chan struct{}, 1),
		untidy: make(chan struct{}, 1), pings: make(chan struct{}),
		state: state{
			sessions: map[string]*line{}, running: map[key]*run{}, perUser: map[uint32]int{},
			inputs:       inputs{users: map[uint32]int64{}, kept: map[key]int64{}},
			environments: map[string]*environmentJob{}, mirrors: map[string]*mirror{}, changed: make(chan struct{}),
		},
	}
	if s.Registry != nil {
		s.Registry.MustRegister(collector{r})
	}
	return r
}

// reconcileEvery bounds how long the end of a unit that leaves no file stays unnoticed, and how late sessions expire.
const reconcileEvery = 10 * time.Second

// Run runs commands until ctx is done; Recover is to be called before it. Units that run then go on.
func (r *Runner) Run(ctx context.Context) error {
	defer r.tasks.Wait()
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for _, c := range r.found {
		r.tasks.Go(func() { r.resume(ctx, c) })
	}
	r.found = nil
	r.tasks.Go(func() { r.sweepHomes(ctx) })
	r.tasks.Go(func() { r.keepBounds(ctx) })
	for {
		for f := r.nextFetch(); f != nil; f = r.nextFetch() {
			r.tasks.Go(func() { r.bring(ctx, f) })
		}
		for next := r.next(); next != nil; next = r.next() {
			r.tasks.Go(func() { r.execute(ctx, next) })
		}
		for _, job := range r.newEnvironmentJobs() {
			r.tasks.Go(func() { r.work(ctx, job) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-r.pings:
		case <-tick.C:
			r.reconcile(ctx)
			r.expire(ctx, r.clock.Now())
			r.makeRoom(ctx)
			r.tidy()
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

// next takes a command to start from the queue, or returns nil.
func (r *Runner) next() *run {
	if r.full() {
		return nil // Run looks again every few seconds
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	if len(s.running) >= r.MaxSessions {
		return nil
	}
	leased := s.leased()
	k, ok := s.queue.pop(s.perUser, func(k key) bool {
		l := s.sessions[k.session]
		return r.mayRun(l.owner) && (leased < r.Workspaces || l.leased)
	})
	if !ok {
		return nil
	}
	l := s.sessions[k.session]
	r.metrics.wait.Observe(time.Since(l.waiting[0].since).Seconds())
	l.queued, l.waiting = false, l.waiting[1:]
	s.waiting--
	c := s.start(store.Live{Session: k.session, Number: k.number, Owner: l.owner, Network: l.network})
	c.begun = time.Now()
	return c
}

// leased counts the sessions that keep their workspaces, as they have further commands. Those of idle sessions can be
// taken from them.
func (s *state) leased() (n int) {
	for _, l := range s.sessions {
		if l.leased {
			n++
		}
	}
	return n
}

// start adds a running command.
func (s *state) start(c store.Live) *run {
	started := &run{Live: c, ran: c.State == wire.CommandRunning, gone: make(chan struct{}), ended: make(chan struct{}),
		guarded: make(chan struct{}, 1), grace: time.Duration(c.Command.Limits.Grace)}
	s.running[key{c.Session, c.Number}] = started
	s.perUser[c.Owner]++
	l := s.line(c)
	l.running, l.leased = true, true
	return started
}

// line returns the line of the session of a command.
func (s *state) line(c store.Live) *line {
	l := s.sessions[c.Session]
	if l == nil {
		l = &line{owner: c.Owner, network: c.Network}
		s.sessions[c.Session] = l
	}
	return l
}

// enqueue adds a command to the line of its session.
func (s *state) enqueue(c store.Live) {
	l := s.line(c)
	l.leased = l.leased || c.Leased
	l.waiting = append(l.waiting, waiting{c.Number, c.State != wire.CommandAwaitingStdin, time.Now()})
	s.waiting++
	s.offer(c.Session)
}

// offer puts the first command of a session into the queue, if it may start.
func (s *state) offer(session string) {
	l := s.sessions[session]
	if l.queued || l.running || len(l.waiting) == 0 || !l.waiting[0].ready {
		return
	}
	l.queued = true
	s.queue.push(l.owner, key{session, l.waiting[0].number})
}

// withdraw takes a waiting command out of its line, and reports whether it was there.
func (s *state) withdraw(k key) bool {
	l := s.sessions[k.session]
	if l == nil {
		return false
	}
	for i, w := range l.waiting {
		if w.number != k.number {
			continue
		}
		if i == 0 && l.queued {
			s.queue.remove(l.owner, k)
			l.queued = false
		}
		l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
		s.waiting--
		s.offer(k.session)
		return true
	}
	return false
}

// change wakes the callers that wait for a change of a command, and has Run look at the queue.
func (s *state) change(wake chan<- struct{}) {
	close(s.changed)
	s.changed = make(chan struct{})
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Changed returns a channel that is closed at the next change of a command.
func (r *Runner) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.changed
}

// Ended returns a channel that is closed when the command's end is stored, which may be before the end of its unit. It
// is closed already if the command does not run.
func (r *Runner) Ended(session string, number int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.state.running[key{session, number}]; c != nil {
		return c.ended
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Load returns how many commands run and how many wait.
func (r *Runner) Load() (running, queued int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.state.running), r.state.waiting
}

// position is the place of a command in the queue, from 1; 0 if it is not there.
func (r *Runner) position(k key) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.state.queue.order(r.state.perUser) {
		if other == k {
			return i + 1
		}
	}
	return 0
}

// unit is the unit of a command.
func (c *run) unit() string { return unitOf(c.Live) }

// unitOf is the unit that runs the commands of the session.
func unitOf(c store.Live) string {
	if c.Network {
		return paths.OnlineUnit(c.Session)
	}
	return paths.SessionUnit(c.Session)
}
