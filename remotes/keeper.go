package remotes

import (
	"cmp"
	"context"
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
)

// Options configures a Keeper.
type Options struct {
	Name   string // of the remote, for people
	Socket string // of codex app-server
	State  string // the directory of the ledger
	Home   string // CODEX_HOME; empty: as codex reports
	// ClientName and Version identify the keeper to codex, which sends the name of its first client upstream. Empty
	// means "codex-proxy" and "0".
	ClientName, Version string
	Continue            Continue      // empty: Always
	Limit               int           // how often one turn goes on after a cut; 0 means 3
	Accounts            Accounts      // nil: codex needs no login
	IdleStop            time.Duration // without users and turns, until Resting closes; 0: never
	Notify              func(Event)   // must not block; may be nil
	Logger              *slog.Logger  // nil discards
}

func (o Options) withDefaults() Options {
	o.ClientName, o.Version = cmp.Or(o.ClientName, "codex-proxy"), cmp.Or(o.Version, "0")
	o.Continue, o.Limit = cmp.Or(o.Continue, Always), cmp.Or(o.Limit, 3)
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Keeper is codex's first client. All methods may be called from any goroutine; Run exactly once.
type Keeper struct {
	opts Options

	mu    sync.Mutex
	state state

	writing sync.Mutex // orders the writes of the ledger
	resting chan struct{}
}

// New reads the ledger of an earlier process. A ledger that does not parse is an error in the log, not of New: the
// remote starts without it, and the file stays beside the new one.
func New(o Options) (*Keeper, error) {
	k := &Keeper{opts: o.withDefaults(), resting: make(chan struct{})}
	if err := os.Mkdir(k.opts.State, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make the directory of the ledger: %w", err)
	}
	l, err := readLedger(k.opts.State)
	switch {
	case errors.Is(err, errBadLedger):
		k.opts.Logger.Error("the ledger of turns is lost: cut turns do not go on", "error", err)
		path := filepath.Join(k.opts.State, ledgerFile)
		if err := os.Rename(path, path+".bad"); err != nil {
			return nil, fmt.Errorf("cannot set the ledger of turns aside: %w", err)
		}
	case err != nil:
		return nil, err
	}
	now := time.Now()
	k.state = newState(l.observed(now), now)
	switch err := k.save(); {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT): // a person can attach, and make room
		k.opts.Logger.Error("a turn that is cut now may not go on", "error", err)
	case err != nil:
		return nil, err
	}
	return k, nil
}

// redial is the pause between attempts to connect to codex, which has its socket some 50 ms after its start.
const redial = 10 * time.Millisecond

// Run connects to codex as soon as it listens, continues cut turns, and serves until ctx ends. A lost connection is
// dialled again: if codex has ended, so does this process.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := k.serve(ctx)
		k.update(func(s *state) { s.disconnected(err) })
		if errors.Is(err, rpc.ErrLost) {
			k.opts.Logger.Warn("the keeper has lost codex", "error", err)
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

// Open waits until the keeper has readied codex: cut turns go on. It is a probe of readiness.
func (k *Keeper) Open(ctx context.Context) (detail string, err error) {
	for {
		var changed <-chan struct{}
		open := false
		k.update(func(s *state) { open, detail, err, changed = s.link != nil, s.detail, s.lastErr, s.changed })
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

// Alive asks codex something cheap on the keeper's connection. It is a probe of liveness.
func (k *Keeper) Alive(ctx context.Context) (detail string, err error) {
	l, err := k.linked()
	if err != nil {
		return "", err
	}
	k.update(func(s *state) { detail = s.detail })
	if err := l.c.Call(ctx, "thread/loaded/list", struct{}{}, nil); err != nil {
		return "", fmt.Errorf("codex does not answer its keeper: %w", err)
	}
	return detail, nil
}

// linked is the connection to codex, once it is open.
func (k *Keeper) linked() (l *link, err error) {
	k.update(func(s *state) { l, err = s.link, s.lastErr })
	if l == nil {
		return nil, cmp.Or(err, errors.New("the keeper is not connected to codex"))
	}
	return l, nil
}

// Resting is closed once nobody has been attached, and nothing has run, for Options.IdleStop.
func (k *Keeper) Resting() <-chan struct{} { return k.resting }

// update runs f, which must not block, with the state locked.
func (k *Keeper) update(f func(*state)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.state)
}

// record changes the ledger and writes it, before it returns. A full disk stops no turn: it is an error in the log.
func (k *Keeper) record(f func(*state)) {
	k.update(f)
	if err := k.save(); err != nil {
		k.opts.Logger.Error("a turn that is cut now may not go on", "error", err)
	}
}

func (k *Keeper) save() error {
	k.writing.Lock()
	defer k.writing.Unlock()
	var content []byte
	k.update(func(s *state) { content = s.ledger.encode() })
	return writeLedger(k.opts.State, content)
}
