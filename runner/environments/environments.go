// Package environments gives sessions their environments: it has units build them, one for all commands that need the
// same one, and removes unused ones. Package environment makes them, within these units.
package environments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/files"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
)

// Settings of Environments.
type Settings struct {
	Config   Config
	Network  bool // sessions may have the network
	Store    store.Environments
	Systemd  *systemd.Client
	Files    files.Files
	Logger   *slog.Logger
	Registry prometheus.Registerer // gets the metrics; nil for none
	// Announce has Due called, and Evicted is called when an environment, or a snapshot, was removed to make room.
	Announce func()
	Evicted  func(key string, snapshot bool, bytes int64)
}

// Environments has the environments of a machine. Its methods are safe for concurrent use.
type Environments struct {
	Settings
	*metrics

	builder builder

	mu    sync.Mutex       // guards the rest; nothing else is locked under it
	tasks map[string]*task // that have not ended, by the keys of their environments
	due   []*task          // that are to be started
	// snapshots belong to set-ups.
	snapshots snapshots
}

// New returns Environments.
func New(s Settings) *Environments {
	return &Environments{
		Settings: s, metrics: newMetrics(s.Registry), tasks: map[string]*task{}, snapshots: newSnapshots(),
		builder: builder{s.Config, s.Store, s.Systemd, s.Files.StateDir},
	}
}

// Planned explains the environment of a session that would be made. Its key depends on the files of the
// workspace, which only a session can read, and on the tools of the host, so it is taken from the last such session.
func (e *Environments) Planned(ctx context.Context, like store.New, given string) (string, error) {
	name, err := environment.Find(like.Session.Environment)
	switch {
	case err != nil || name == environment.None:
		return name, err
	case environment.IsSetup(name):
		return setups{e}.planned(ctx, name, like, given)
	}
	last, err := e.Store.Last(ctx, like)
	if err != nil {
		return "", err
	}
	if last == "" {
		return name + ": the manifests in the workspace decide on the key", nil
	}
	return name + ": " + last + ", unless the tools of the host have changed since the last session of this commit", nil
}

// Spec returns the environment for the specification of a command. For the first command of a session it waits until
// the set-up of its commit is built. The error is a *BuildError if that fails.
func (e *Environments) Spec(ctx context.Context, c store.Live) (*session.Environment, error) {
	name, err := environment.Find(c.Environment)
	if err != nil || name == environment.None {
		return nil, err
	}
	want := &session.Environment{
		Owner: e.Config.ownerOf(c.Owner), Name: name, Store: e.Config.Store,
		Wait: min(e.Config.Timeout+waitSlack, session.MaxWait),
	}
	if !environment.IsSetup(name) {
		return want, nil
	}
	want.Wait = min(e.Config.Timeout, session.MaxWait) // of its script
	if want.SetUp, err = e.Files.SetUp(c.Session); err == nil {
		want.Snapshot, err = setups{e}.snapshotOf(ctx, c, want)
	}
	if err == nil { // a build before may have left some
		want.Facts, err = e.Store.Facts(ctx, c.Owner)
	}
	return want, err
}

// Obtain returns when the environment is there, and leased until the end of the command. A sandbox sends the need: its
// key is computed anew, so that no session names the environment of another.
func (e *Environments) Obtain(ctx context.Context, c store.Live, need *exec.Need) error {
	key := need.Order.Key()
	if key != need.Key {
		return fmt.Errorf("the session asks for the environment %.40q, but its order is that of %s", need.Key, key)
	}
	if need.Order.Store.Dir != e.Config.Store || need.Order.Owner != e.Config.ownerOf(c.Owner) {
		return errors.New("store or shared of [environments] has been changed meanwhile: run the command again")
	}
	built := false
	for missing := need.Missing; ; {
		state, err := e.Store.Lease(ctx, c.Session, c.Number, key, time.Now())
		if err != nil {
			return err
		}
		if state == store.EnvironmentReady && !missing {
			if !built {
				e.hits.Inc()
			}
			return nil
		}
		t, err := e.join(ctx, c, key, need.Order)
		if err != nil {
			return err
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if t.err != nil {
			return t.err
		}
		missing, built = false, !t.removal
	}
}
