// Package environments gives sessions their environments: it has units build them, one for all commands that need the
// same one, and removes unused ones. Package environment makes them, within these units.
package environments

import (
	"context"
	"encoding/json"
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

	metrics *metrics
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
func (e *Environments) Planned(ctx context.Context, like store.New) (string, error) {
	name := like.Session.Environment
	switch name {
	case None:
		return name, nil
	case environment.Setup:
		return name + ": codex-runner setup --print shows the set-up of the repository", nil
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
	if c.Environment == None {
		return nil, nil //nolint:nilnil // as Spec.Environment has it
	}
	facts, err := e.Store.Facts(ctx, c.Owner)
	if err != nil {
		return nil, err
	}
	want := &session.Environment{
		Owner: e.Config.ownerOf(c.Owner), Name: c.Environment, Store: e.Config.Store, Facts: facts,
		Wait: min(e.Config.Timeout+waitSlack, session.MaxWait),
	}
	if want.Name == environment.Setup { // the time is that of its script
		want.Facts, want.Wait = nil, min(e.Config.Timeout, session.MaxWait)
		want.Snapshot, err = setups{e}.snapshotOf(ctx, c)
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
	if err := e.keepFacts(ctx, c.Owner, need.Facts); err != nil {
		return err
	}
	built := false
	for missing := need.Missing; ; {
		state, err := e.Store.Lease(ctx, c.Session, c.Number, key, time.Now())
		if err != nil {
			return err
		}
		if state == store.EnvironmentReady && !missing {
			if !built {
				e.metrics.hits.Inc()
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

// keepFacts keeps the reports of tools for the next commands of the user.
func (e *Environments) keepFacts(ctx context.Context, owner uint32, facts environment.Facts) error {
	text, err := json.Marshal(facts)
	if err != nil || len(facts) == 0 || len(text) > maxFacts {
		return err
	}
	return e.Store.KeepFacts(ctx, owner, text)
}
