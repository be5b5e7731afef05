package remotes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/codex/rpc"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/turnjournal"
)

// Options configures a Manager.
type Options struct {
	Name   string // of the remote, for people
	Socket string // of codex app-server
	// Settings names the file with continue_limit, for people; empty means "the remote's file".
	Settings string
	State    string // the directory of the turn journal
	Home     string // CODEX_HOME; empty: as codex reports
	// ClientName and Version identify the manager to codex, which sends the name of its first client upstream. Empty
	// means "codex-proxy" and "0".
	ClientName, Version string
	Continue            remoteconfig.Continue // empty: Always
	Limit               int                   // how often one turn goes on after a cut; 0 means 3
	Accounts            Accounts              // nil: codex needs no login
	IdleStop            time.Duration         // without users and turns, until Resting closes; 0: never
	Restart             func() error          // asks this process to end; nil: nothing does
	Notify              func(Event)           // must not block; may be nil
	// Attach is the command by which a person attaches; empty means codex-proxy attach, with the name.
	Attach string
	// Initialized gets codex's result of initialize; may be nil.
	Initialized func(json.RawMessage)
	// LateFiles has codex write the file of a new thread before its first turn, and not at once: a client that is
	// closed without a message then leaves no file.
	LateFiles bool
	// Loaded returns the settings by which a client has loaded a thread, which are sent again when its turn goes on
	// after a cut; may be nil.
	Loaded func(thread string) map[string]json.RawMessage
	// Unloaded gets the threads that codex does not have loaded any more; may be nil.
	Unloaded func(thread string)
	// Hands execute the commands of codex; nil: codex executes them itself.
	Hands  Hands
	Logger *slog.Logger // nil discards
}

// Hands execute the commands of codex.
type Hands interface {
	// Commands is how many were executed since this process has started.
	Commands() int
	// Changes has the changes of the workspace printed; begin includes those that it began with.
	Changes(ctx context.Context, begin bool) (stdout, stderr []byte, err error)
	// Announce has the model of a thread that codex has loaded learn of a new checkout before its next turn.
	Announce(ctx context.Context, thread string, inject func(ctx context.Context, thread string, items []any) error)
}

func (o Options) withDefaults() Options {
	o.ClientName, o.Version = cmp.Or(o.ClientName, "codex-proxy"), cmp.Or(o.Version, "0")
	o.Continue, o.Limit = cmp.Or(o.Continue, remoteconfig.Always), cmp.Or(o.Limit, 3)
	o.Attach = cmp.Or(o.Attach, "codex-proxy attach "+o.Name)
	o.Settings = cmp.Or(o.Settings, "the remote's file")
	if o.Loaded == nil {
		o.Loaded = func(string) map[string]json.RawMessage { return nil }
	}
	if o.Unloaded == nil {
		o.Unloaded = func(string) {}
	}
	if o.Initialized == nil {
		o.Initialized = func(json.RawMessage) {}
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Manager is codex's first client. All methods may be called from any goroutine; Run exactly once.
type Manager struct {
	keeping
	resting chan struct{}
}

// keeping is the state of a Manager with its turn journal on disk, and reports its events.
type keeping struct {
	opts Options

	mu    sync.Mutex
	state state

	writing sync.Mutex // orders the writes of the turn journal
}

// New reads the turn journal of an earlier process. A turn journal that does not parse is an error in the log, not of
// New: the remote starts without it, and the file stays beside the new one.
func New(o Options) (*Manager, error) {
	m := &Manager{keeping: keeping{opts: o.withDefaults()}, resting: make(chan struct{})}
	if err := os.Mkdir(m.opts.State, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make the directory of the turn journal: %w", err)
	}
	l, err := turnjournal.Read(m.opts.State)
	switch {
	case errors.Is(err, turnjournal.ErrBad):
		m.opts.Logger.Error("the turn journal is lost: cut turns do not go on", "error", err)
		path := filepath.Join(m.opts.State, turnjournal.File)
		if err := os.Rename(path, path+".bad"); err != nil {
			return nil, fmt.Errorf("cannot set the turn journal aside: %w", err)
		}
	case err != nil:
		return nil, err
	}
	now := time.Now()
	m.state = newState(l.Observed(now), now)
	switch err := m.save(); {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT): // a person can attach, and make room
		m.opts.Logger.Error("a turn that is cut now may not go on", "error", err)
	case err != nil:
		return nil, err
	}
	return m, nil
}

// redial is the pause between attempts to connect to codex, which has its socket some 50 ms after its start.
const redial = 10 * time.Millisecond

// Run connects to codex as soon as it listens, continues cut turns, and serves until ctx ends. A lost connection is
// dialled again: if codex has ended, so does this process.
func (m *Manager) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := m.serve(ctx)
		m.update(func(s *state) { s.disconnected(err) })
		if errors.Is(err, rpc.ErrLost) {
			m.opts.Logger.Warn("the main process has lost codex", "error", err)
		}
		pause(ctx, redial)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Open waits until the manager has readied codex: cut turns go on. It is a probe of readiness.
func (m *Manager) Open(ctx context.Context) (detail string, err error) {
	for {
		var changed <-chan struct{}
		open := false
		m.update(func(s *state) { open, detail, err, changed = s.link != nil, s.detail, s.lastErr, s.changed })
		if open {
			return detail, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", cmp.Or(err, context.Cause(ctx))
		}
	}
}

// Alive asks codex something cheap on the manager's connection. It is a probe of liveness.
func (m *Manager) Alive(ctx context.Context) (detail string, err error) {
	l, err := m.linked()
	if err != nil {
		return "", err
	}
	m.update(func(s *state) { detail = s.detail })
	if err := l.c.Call(ctx, "thread/loaded/list", struct{}{}, nil); err != nil {
		return "", fmt.Errorf("codex does not answer the main process: %w", err)
	}
	return detail, nil
}

// linked is the connection to codex, once it is open.
func (m *keeping) linked() (l *codexConn, err error) {
	m.update(func(s *state) { l, err = s.link, s.lastErr })
	if l == nil {
		return nil, cmp.Or(err, errors.New("the main process is not connected to codex"))
	}
	return l, nil
}

// Resting is closed once nobody has been attached, and nothing has run, for Options.IdleStop.
func (m *Manager) Resting() <-chan struct{} { return m.resting }

// update runs f, which must not block, with the state locked.
func (m *keeping) update(f func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
}

// record changes the turn journal and writes it, before it returns. A full disk stops no turn: it is an error in the
// log.
func (m *keeping) record(f func(*state)) {
	m.update(f)
	if err := m.save(); err != nil {
		m.opts.Logger.Error("a turn that is cut now may not go on", "error", err)
	}
}

func (m *keeping) save() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	var content []byte
	m.update(func(s *state) { content = s.journal.Encode() })
	return turnjournal.Write(m.opts.State, content)
}
