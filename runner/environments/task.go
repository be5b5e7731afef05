package environments

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/files"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/store"
)

// task builds or removes an environment, for all that wait for it.
type task struct {
	key, provider string
	unit          string
	order         *environment.Order // to build; nil for a set-up, or a build that an earlier daemon has started
	setUp         *setup.Build       // to run; likewise
	removal       bool
	bytes         int64 // that a removal frees

	done  chan struct{}
	err   error     // of a build; set before done is closed
	built job.Built // likewise
	// untested is the snapshot without the results of the script's Test, once it is made. Each task may read the one of
	// another.
	untested atomic.Pointer[job.Built]
	// first has the unit and order of a set-up, before its Test; nil: it has no Test, or an earlier daemon made it.
	first *firstBuild
}

// firstBuild is a unit with its order.
type firstBuild struct {
	unit  string
	setUp *setup.Build
}

// join returns the task of the environment that has not ended, or else a new one that builds it.
func (e *Environments) join(ctx context.Context, c store.Live, key string, order environment.Order) (*task, error) {
	written, err := e.writtenByCommand(ctx, c, key)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	t := e.tasks[key]
	joined := t != nil
	if !joined {
		t, err = e.beginBuild(c, key, order, written)
	}
	e.mu.Unlock()
	if !joined && err == nil {
		e.Announce()
	}
	return t, err
}

func (e *Environments) beginBuild(c store.Live, key string, order environment.Order, written bool) (*task, error) {
	unit, err := e.Config.unitFor(c, key, order, written)
	if err != nil {
		return nil, err
	}
	t := &task{key: key, provider: order.Provider, unit: unit, order: &order}
	e.begin(t)
	return t, nil
}

// unitFor is the unit that builds an environment for a command. written reports that a command may have written its
// manifests.
func (c Config) unitFor(of store.Live, key string, order environment.Order, written bool) (string, error) {
	if order.Store.Dir != "" {
		return paths.EnvironmentUnit(key), nil
	}
	n := c.Network
	if n == BuildsForNone || n == BuildsForOnline && !of.Network {
		return "", fmt.Errorf("the environment %s is not there, and may not be built with the network for this session: "+
			"network and store of [environments] in runner.toml decide", order.Provider)
	}
	if written && !of.Network {
		return "", fmt.Errorf("the environment %s is not there, and is not built with the network, which this session does not "+
			"have, as a command may have written its manifests: commit them or send them as a patch, and make a new session",
			order.Provider)
	}
	return paths.OnlineEnvironmentUnit(key), nil
}

// writtenByCommand reports whether a command of the session may have written the manifests of an environment: whether
// its key is another one than when the workspace was made.
func (e *Environments) writtenByCommand(ctx context.Context, c store.Live, key string) (bool, error) {
	made := c.Number
	for made > 1 && e.Files.Workspace(c.Session, made) != files.NotMade {
		made--
	}
	if made == c.Number {
		return false, nil
	}
	first, err := e.Store.Of(ctx, c.Session, made)
	return first != key, err
}

// begin has Due return a task. The environment must have no other one.
func (e *Environments) begin(t *task) {
	t.done = make(chan struct{})
	e.tasks[t.key] = t
	e.due = append(e.due, t)
}

// Due takes the work that is to be started, each to run in a goroutine.
func (e *Environments) Due() (work []func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.due {
		work = append(work, func(ctx context.Context) { e.do(ctx, t) })
	}
	e.due = nil
	return work
}

// do does a task. If ctx ends before, a unit that has started goes on, and the next daemon finds it.
func (e *Environments) do(ctx context.Context, t *task) {
	if t.removal {
		e.evict(ctx, t)
	} else {
		t.err = e.build(ctx, t)
	}
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	if t.provider == environment.Setup && !t.removal && t.err == nil {
		setups{e}.remember(t)
		delete(e.tasks, t.key)
		old := t.untested.Load()
		if old != nil && old.Key != t.built.Key && e.tasks[old.Key] == nil && !e.isTested(old.Key) {
			e.begin(&task{key: old.Key, provider: environment.Setup, removal: true})
			defer e.Announce()
		}
	}
	delete(e.tasks, t.key)
	close(t.done)
	e.mu.Unlock()
	if !t.removal {
		e.Bound(ctx)
	}
}

// isTested reports whether a task adds the results of a Test to a snapshot. The caller holds the lock.
func (e *Environments) isTested(key string) bool {
	for _, t := range e.tasks {
		if of := t.untested.Load(); of != nil && of.Key == key {
			return true
		}
	}
	return false
}

// build builds an environment. The files of a failed build are removed.
func (e *Environments) build(ctx context.Context, t *task) error {
	began := time.Now()
	err := e.builder.build(ctx, t)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.record(t, time.Since(began), err)
	if err != nil {
		e.remove(ctx, t.key)
	}
	return err
}

// evict removes an environment, unless a command uses it by now.
func (e *Environments) evict(ctx context.Context, t *task) {
	err := e.Store.Remove(ctx, t.key)
	if err == nil && e.remove(ctx, t.key) && t.bytes > 0 {
		e.evicted(t, e.Evicted)
	}
	if err != nil && !errors.Is(err, store.ErrState) && ctx.Err() == nil {
		e.Logger.Error("cannot remove an environment", "environment", t.key, "error", err)
	}
}

// remove removes an environment from the disk, and reports whether it did. It is tried again by Bound.
func (e *Environments) remove(ctx context.Context, key string) bool {
	err := e.Systemd.RunJob(ctx, paths.SweepUnit("environment", key))
	if err == nil {
		err = errors.Join(e.builder.forgetFiles(key), e.Store.Forget(ctx, key))
	}
	if err != nil && ctx.Err() == nil {
		e.Logger.Error("cannot remove an environment", "environment", key, "error", err)
	}
	return err == nil
}

// Bound begins to remove environments that are not whole or of an earlier version, and, while all together take more
// than they may, the least recently used ones. An environment that a command uses stays.
func (e *Environments) Bound(ctx context.Context) {
	all, err := e.Store.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.Logger.Error("cannot find the environments", "error", err)
		}
		return
	}
	var size int64
	for _, one := range all {
		size += one.Bytes
	}
	if e.removeBeyond(all, size) {
		e.Announce()
	}
}

func (e *Environments) removeBeyond(all []store.Environment, size int64) (begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range all {
		whole := one.State == store.EnvironmentReady && paths.CheckEnvironment(one.Key) == nil
		has := e.tasks[one.Key]
		if has != nil && has.removal {
			size -= one.Bytes // an earlier call makes this room
		}
		if one.Leased || has != nil || whole && size <= e.Config.MaxBytes {
			continue
		}
		size -= one.Bytes
		e.begin(&task{key: one.Key, provider: one.Provider, removal: true, bytes: one.Bytes})
		begun = true
	}
	return begun
}

// Recover continues with builds that an earlier daemon has started. Those without a whole result are left
// to Bound, or to the command that needs them.
func (e *Environments) Recover(ctx context.Context) error {
	all, err := e.Store.List(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the store: %w", err)
	}
	active, err := e.Systemd.Active(ctx, paths.EnvironmentUnit("*"), paths.OnlineEnvironmentUnit("*"))
	if err != nil {
		return fmt.Errorf("cannot find the environments that are built: %w", err)
	}
	for _, one := range all {
		if one.State == store.EnvironmentBuilding {
			if err := e.resume(ctx, one, active); err != nil {
				return fmt.Errorf("cannot recover the environment %s: %w", one.Key, err)
			}
		}
	}
	return nil
}

func (e *Environments) resume(ctx context.Context, one store.Environment, active map[string]bool) error {
	for _, unit := range []string{paths.EnvironmentUnit(one.Key), paths.OnlineEnvironmentUnit(one.Key)} {
		if active[unit] {
			untested, err := e.builder.untested(one.Key)
			if err != nil {
				return err
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			t := &task{key: one.Key, provider: one.Provider, unit: unit}
			t.untested.Store(untested)
			e.begin(t)
			return nil
		}
	}
	built, err := e.builder.built(one.Key)
	if err != nil || built == nil || built.Failure != nil {
		return err
	}
	return e.builder.ready(ctx, &task{key: one.Key, provider: one.Provider, built: *built})
}
