package environments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/store"
)

// BuildError is why there is no environment for a command: its build has failed.
type BuildError struct{ error }

// Unwrap returns the reason.
func (e *BuildError) Unwrap() error { return e.error }

// snapshots has what is known about the snapshots of set-ups.
type snapshots struct {
	known   map[string]known // by the keys of builds
	missing map[string]bool  // keys of those that sessions have not found whole
}

// known is the result of a build.
type known struct {
	key   string   // of the snapshot; "" if the commit has no set-up that does anything
	lacks []string // programs, as job.Built has them
}

// maxKnown bounds both maps. A build that is known no more finds out its key again.
const maxKnown = 10_000

func newSnapshots() snapshots {
	return snapshots{known: map[string]known{}, missing: map[string]bool{}}
}

// setups are the environments that set-ups of commits have left.
type setups struct{ *Environments }

// snapshotOf returns what the session of a command begins with, or nil: then its set-up runs in the session. The first
// command waits for the build, and the later ones have the same snapshot.
func (e setups) snapshotOf(ctx context.Context, c store.Live, want *session.Environment) (*session.Snapshot, error) {
	if c.Commit == "" {
		return nil, nil
	}
	if c.Number > 1 {
		first, err := e.Files.Spec(c.Session, 1)
		if err != nil || first == nil || first.Environment == nil {
			return nil, err
		}
		return first.Environment.Snapshot, nil
	}
	if want.SetUp == "" {
		if plain, err := e.Store.Plain(ctx, c.Repository, c.Commit); plain || err != nil {
			return nil, err
		}
	}
	found, err := e.obtain(ctx, c, want.SetUp)
	if _, failed := errors.AsType[*BuildError](err); failed && len(c.Secrets) > 0 {
		return nil, nil //nolint:nilerr // it may need a secret, which no build has, and runs in the session
	}
	return found, err
}

// planned explains where a session gets the files of its set-up from.
func (e setups) planned(ctx context.Context, name string, like store.New, given string) (string, error) {
	switch {
	case given != "":
		return name + ": the one that was given", nil
	case like.Repository == "":
		return name + ": by the files of the workspace, in the session", nil
	}
	plain, err := e.Store.Plain(ctx, like.Repository, like.Session.Commit)
	if err != nil || plain && name == environment.Auto {
		return name + ": the commit needs no set-up", err
	}
	last, err := e.Store.Last(ctx, like)
	if last == "" {
		return name + ": the set-up of the commit, in a build of its own", err
	}
	return name + ": the snapshot " + last + ", unless a tool of the host has changed", err
}

// obtain returns the snapshot of a commit, leased while the session is open.
func (e setups) obtain(ctx context.Context, c store.Live, given string) (*session.Snapshot, error) {
	b := e.buildOf(c, given)
	for range 2 { // it may be removed before the lease
		key, built, err := e.find(ctx, b)
		if err != nil || key == "" {
			return nil, err
		}
		state, err := e.Store.Lease(ctx, c.Session, c.Number, key, time.Now())
		if err != nil {
			return nil, err
		}
		if state == store.EnvironmentReady {
			e.began(built)
			return &session.Snapshot{User: b.Scope.User, Key: key}, nil
		}
		e.forget(b)
	}
	return nil, nil
}

// buildOf is the build for the first command of a session. It has the commit without the patch of the session: no other
// session gets what that patch does.
func (e setups) buildOf(c store.Live, given string) setup.Build {
	return setup.Build{
		Scope: setup.Scope{
			User: strconv.FormatUint(uint64(c.Owner), 10), Repository: c.Repository, Online: e.online(c),
			Env: c.Command.Env,
		},
		URL: c.URL, Commit: c.Commit, Source: setup.Source{Store: e.Config.Store, Given: given},
	}
}

// online reports whether the build for a session has the network. It runs code of the user: if no session may have the
// network, this code may not either.
func (e setups) online(c store.Live) bool {
	switch n := e.Config.Network; {
	case e.Config.Store != "" || !e.Network:
		return false
	case n == BuildsForOnline:
		return c.Network
	default:
		return n == BuildsForAll
	}
}

// find returns the key of the snapshot of a build, and whether that was built now.
func (e setups) find(ctx context.Context, b setup.Build) (key string, built bool, err error) {
	key, t, err := e.joinSetUp(ctx, b)
	if t == nil || err != nil {
		return key, false, err
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	if err := t.err; err != nil {
		if !b.Scope.Online && b.Store == "" {
			err = fmt.Errorf("the build of the set-up has no network (network and [environments] of runner.toml decide): %w", err)
		}
		return "", false, &BuildError{err}
	}
	return t.built.Key, t.built.Made, nil
}

// joinSetUp returns the key that the build has had, or its task that has not ended, or else a new one.
func (e setups) joinSetUp(ctx context.Context, b setup.Build) (key string, t *task, err error) {
	all, err := e.Store.List(ctx)
	if err != nil {
		return "", nil, err
	}
	e.mu.Lock()
	t = e.tasks[b.Key()]
	found, ok := e.snapshots.known[b.Key()]
	if ok && !setup.Meets(e.programs(), found.lacks) {
		e.mu.Unlock()
		return found.key, nil, nil
	}
	joined := t != nil
	if !joined {
		for _, one := range slices.Backward(all) { // the last used first
			if one.Provider == environment.Setup && one.State == store.EnvironmentReady && !e.snapshots.missing[one.Key] {
				b.Ready = append(b.Ready, setup.Snapshot{Key: one.Key, Family: one.Family})
			}
		}
		t = &task{key: b.Key(), provider: environment.Setup, unit: unitOf(b), setUp: &b}
		e.begin(t)
	}
	e.mu.Unlock()
	if !joined {
		e.Announce()
	}
	return "", t, nil
}

func unitOf(b setup.Build) string {
	if b.Scope.Online {
		return paths.OnlineEnvironmentUnit(b.Key())
	}
	return paths.EnvironmentUnit(b.Key())
}

// remember keeps the key of a snapshot for later sessions of the commit. e.mu is locked.
func (e setups) remember(t *task) {
	if len(e.snapshots.known) > maxKnown {
		e.snapshots = newSnapshots()
	}
	// What is here and fails, or is nowhere but in PATH of the set-up, is no reason for another build.
	lacks := slices.DeleteFunc(t.built.Lacks, func(need string) bool { return setup.Meets(e.programs(), []string{need}) })
	e.snapshots.known[t.key] = known{t.built.Key, lacks}
	delete(e.snapshots.missing, t.built.Key)
}

func (e setups) forget(b setup.Build) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.snapshots.known, b.Key())
}

// programs is where builds find programs, but for toolchains in homes: the daemon does not see these.
func (e setups) programs() environment.Host {
	p := sandbox.Programs{Usual: os.Getenv("PATH")} // of units, as the daemon is one
	if e.Config.Sandbox != nil {
		p.First = e.Config.Sandbox.Path
	}
	return environment.Host{Path: p.Path()}
}

// Distrust has the next session of the commit not rely on what is known about its snapshot, as the set-up had to run in
// a session.
func (e *Environments) Distrust(ctx context.Context, c store.Live, fault session.SnapshotFault) error {
	given, err := e.Files.SetUp(c.Session)
	if err != nil {
		return err
	}
	setups{e}.forget(setups{e}.buildOf(c, given))
	if fault != session.SnapshotMissing {
		return nil
	}
	key, err := e.Store.Of(ctx, c.Session, 1)
	if err != nil {
		return fmt.Errorf("cannot find out which snapshot is missing: %w", err)
	}
	e.mu.Lock()
	e.snapshots.missing[key] = true
	e.mu.Unlock()
	e.Logger.Warn("the snapshot of a set-up is not there or not whole: the next session of its commit makes it anew",
		"environment", key)
	return nil
}

// finish records what the build of a set-up has made. It can be called again.
func (b builder) finish(ctx context.Context, t *task) error {
	if t.built.Made {
		if err := b.store.Snapshot(ctx, t.built.Key, t.built.Family, t.built.Bytes, time.Now()); err != nil {
			return err
		}
	}
	return errors.Join(b.keepFacts(ctx, t), b.forgetFiles(t.key), b.store.Forget(ctx, t.key))
}

// keepFacts keeps the reports of tools for the sessions of the user.
func (b builder) keepFacts(ctx context.Context, t *task) error {
	if t.setUp == nil || len(t.built.Facts) == 0 {
		return nil
	}
	user, err := strconv.ParseUint(t.setUp.Scope.User, 10, 32)
	text, textErr := json.Marshal(t.built.Facts)
	if err = errors.Join(err, textErr); err != nil || len(text) > maxFacts {
		return err
	}
	return b.store.KeepFacts(ctx, uint32(user), text)
}
