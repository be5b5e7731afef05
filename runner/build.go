package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// build builds an environment, or waits for a build that an earlier daemon has started. The files of a failed build are
// removed.
func (r *Runner) build(ctx context.Context, j *environmentJob) error {
	began := time.Now()
	err := r.buildUnit(ctx, j)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.recordBuild(j.key, j.provider, time.Since(began), err)
	if err != nil {
		r.sweepEnvironment(ctx, j.key)
	}
	return err
}

func (r *Runner) buildUnit(ctx context.Context, j *environmentJob) error {
	if j.order != nil {
		if err := errors.Join(r.Store.BeginEnvironment(ctx, j.key, j.provider, time.Now()),
			r.writeOrder(j)); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, r.Environments.Timeout)
	defer cancel()
	started := r.startJob(bounded, j.unit)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return errors.Join(fmt.Errorf("the build of the environment %s took longer than %v: need fewer packages, or raise timeout "+
			"of [environments] in runner.toml", j.provider, r.Environments.Timeout), r.stop(ctx, j.unit))
	}
	built, err := r.built(j.key)
	switch {
	case err != nil:
		return err
	case built == nil:
		return fmt.Errorf("the build of the environment %s was killed or did not start: `journalctl -u %s` has the reason (%w)",
			j.provider, j.unit, errors.Join(started, errNoResult))
	case built.Failure != nil:
		return fmt.Errorf("cannot build the environment %s: %s%s", j.provider, built.Failure.Text, r.lastOutput(j.key))
	}
	return r.Store.EndEnvironment(ctx, j.key, built.Bytes)
}

var errNoResult = errors.New("it left no result")

// startJob starts a unit of Type=oneshot, unless it is active, and waits for its end.
func (r *Runner) startJob(ctx context.Context, unit string) error {
	for {
		err := r.insist(ctx, never, func() error { return r.Units.Start(ctx, unit) })
		if err == nil || ctx.Err() != nil {
			return err
		}
		active, listErr := r.activeUnits(ctx, unit)
		if listErr == nil && !active[unit] {
			return err
		}
		select { // it goes on
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// built is the result of the last build; nil without a whole one.
func (r *Runner) built(key string) (*job.Built, error) {
	return read(r.jobFile(key, paths.Result), job.Read[job.Built])
}

// maxShown bounds the output of a build that people see, in bytes.
const maxShown = 4 << 10

// lastOutput is the end of the output of a build, with a text before it. Foreign programs wrote it.
func (r *Runner) lastOutput(key string) string {
	file, err := os.Open(r.jobFile(key, paths.Output))
	if err != nil {
		return ""
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(file, max(0, end-maxShown), maxShown))
	shown := strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) || c == '\n' {
			return c
		}
		return -1
	}, string(text)))
	if shown == "" {
		return ""
	}
	return "; its output ends with:\n" + shown
}

// makeRoom begins to remove environments that are not whole or of an earlier version, and, while all together take more
// than they may, the least recently used ones. An environment that a command uses stays.
func (r *Runner) makeRoom(ctx context.Context) {
	all, err := r.Store.Environments(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.Logger.Error("cannot find the environments", "error", err)
		}
		return
	}
	var size int64
	for _, e := range all {
		size += e.Bytes
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range all {
		whole := e.State == store.EnvironmentReady && paths.CheckEnvironment(e.Key) == nil
		if e.Leased || r.state.environments[e.Key] != nil || whole && size <= r.Environments.MaxBytes {
			continue
		}
		size -= e.Bytes
		r.state.begin(&environmentJob{key: e.Key, provider: e.Provider, removes: true, bytes: e.Bytes})
		r.state.change(r.wake)
	}
}

// evict removes an environment, unless a command uses it by now.
func (r *Runner) evict(ctx context.Context, j *environmentJob) {
	err := r.Store.RemoveEnvironment(ctx, j.key)
	if err == nil && r.sweepEnvironment(ctx, j.key) && j.bytes > 0 {
		r.recordEviction(EvictedEnvironment, j.key, j.bytes)
	}
	if err != nil && !errors.Is(err, store.ErrState) && ctx.Err() == nil {
		r.Logger.Error("cannot remove an environment", "environment", j.key, "error", err)
	}
}

// sweepEnvironment removes an environment from the disk, and reports whether it did. It is tried again by makeRoom.
func (r *Runner) sweepEnvironment(ctx context.Context, key string) bool {
	err := r.startJob(ctx, paths.SweepUnit("environment", key))
	if err == nil {
		err = errors.Join(os.RemoveAll(filepath.Join(r.StateDir, paths.EnvironmentDir(key))),
			r.Store.ForgetEnvironment(ctx, key))
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.Error("cannot remove an environment", "environment", key, "error", err)
	}
	return err == nil
}

// recoverEnvironments continues with builds that an earlier daemon has started. Those without a whole result are left
// to makeRoom, or to the command that needs them.
func (r *Runner) recoverEnvironments(ctx context.Context) error {
	all, err := r.Store.Environments(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the store: %w", err)
	}
	active, err := r.activeUnits(ctx, paths.EnvironmentUnit("*"), paths.OnlineEnvironmentUnit("*"))
	if err != nil {
		return fmt.Errorf("cannot find the environments that are built: %w", err)
	}
	for _, e := range all {
		if e.State == store.EnvironmentBuilding {
			if err := r.resumeBuild(ctx, e, active); err != nil {
				return fmt.Errorf("cannot recover the environment %s: %w", e.Key, err)
			}
		}
	}
	return nil
}

func (r *Runner) resumeBuild(ctx context.Context, e store.Environment, active map[string]bool) error {
	for _, unit := range []string{paths.EnvironmentUnit(e.Key), paths.OnlineEnvironmentUnit(e.Key)} {
		if active[unit] {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.state.begin(&environmentJob{key: e.Key, provider: e.Provider, unit: unit})
			return nil
		}
	}
	built, err := r.built(e.Key)
	if err != nil || built == nil || built.Failure != nil {
		return err
	}
	return r.Store.EndEnvironment(ctx, e.Key, built.Bytes)
}
