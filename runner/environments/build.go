package environments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/files"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
)

// builder has units build environments. It needs no lock: an environment has one task at a time.
type builder struct {
	config  Config
	store   store.Environments
	systemd *systemd.Client
	state   string // the directory of the daemon's state
}

// build builds an environment, or waits for a build that an earlier daemon has started. A set-up may have more units,
// each with the files of a snapshot: all together have the time of one.
func (b builder) build(ctx context.Context, t *task) error {
	bounded, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	for {
		again, err := b.run(ctx, bounded, t)
		if untested := t.untested.Load(); err != nil && untested != nil && ctx.Err() == nil { // tests may do anything
			t.built = *untested
			return b.ready(ctx, t)
		}
		if !again || err != nil {
			return err
		}
	}
}

// run has a unit build until bounded ends. It reports whether the task needs another one.
func (b builder) run(ctx, bounded context.Context, t *task) (again bool, err error) {
	if t.order != nil || t.setUp != nil {
		if err := errors.Join(b.store.Begin(ctx, t.key, t.provider, time.Now()), b.writeOrder(t)); err != nil {
			return false, err
		}
	}
	started := b.systemd.RunJob(bounded, t.unit)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case bounded.Err() != nil:
		return false, errors.Join(b.systemd.InsistOnStop(ctx, t.unit), fmt.Errorf("the build of the environment %s took "+
			"longer than %v: mend what hangs, need fewer packages, or raise timeout of [environments] in runner.toml%s",
			t.provider, b.config.Timeout, b.lastOutput(t.key)))
	}
	built, err := b.built(t.key)
	switch {
	case err != nil:
		return false, err
	case built == nil:
		return false, fmt.Errorf("the build of the environment %s was killed or did not start: `journalctl -u %s` has "+
			"the reason (%w)%s", t.provider, t.unit, errors.Join(started, errNoResult), b.lastOutput(t.key))
	case built.Failure != nil:
		without := ""
		if t.provider == environment.Setup {
			without = " (--env none leaves the set-up out)"
		}
		return false, fmt.Errorf("cannot build the environment %s: %s%s%s", t.provider, built.Failure.Text, without,
			b.lastOutput(t.key))
	}
	t.built = *built
	untested := t.untested.Load()
	switch {
	case untested != nil && built.Gone:
		return b.anew(ctx, t)
	case built.From != "" && t.setUp != nil:
		from := *t.setUp
		from.From, from.As = built.From, built.Snapshot
		t.setUp = &from
		return true, nil
	case built.Test && t.setUp != nil:
		return true, b.thenTest(ctx, t)
	case untested != nil && built.Key == untested.Key:
		t.built = *untested
	}
	return false, b.ready(ctx, t)
}

// thenTest has the next unit, without the network, add the results of the script's Test to the snapshot that was made.
// Sessions can begin with that one, too.
func (b builder) thenTest(ctx context.Context, t *task) error {
	made, next := t.built, *t.setUp
	next.Test, next.From, next.As = true, made.Key, made.Tested()
	t.first = &firstBuild{t.unit, t.setUp}
	t.untested.Store(&made)
	t.setUp, t.unit = &next, paths.EnvironmentUnit(t.key)
	return b.store.Snapshot(ctx, made.Key, made.Family, made.Bytes, time.Now())
}

// anew has the set-up run again, as its snapshot was removed before the Test: no session can begin with that.
func (b builder) anew(ctx context.Context, t *task) (again bool, err error) {
	gone := t.untested.Swap(nil)
	if err := b.store.Forget(ctx, gone.Key); err != nil {
		return false, err
	}
	if t.first == nil {
		return false, errors.New("the snapshot of the set-up was removed before its tests ran: run the command again")
	}
	t.unit, t.setUp = t.first.unit, t.first.setUp
	return true, nil
}

// untested is the snapshot to which the unit of the last order adds the results of a Test; nil: it does something else.
func (b builder) untested(key string) (*job.Built, error) {
	order, err := files.Read(b.file(key, paths.Order), func(r io.Reader) (order *job.Build, err error) {
		err = json.NewDecoder(r).Decode(&order)
		return order, err
	})
	if err != nil || order == nil || order.SetUp == nil || !order.SetUp.Test {
		return nil, err
	}
	return &job.Built{Snapshot: setup.Snapshot{Key: order.SetUp.From, Family: order.SetUp.As.Family}}, nil
}

// ready records that a build has succeeded.
func (b builder) ready(ctx context.Context, t *task) error {
	if t.provider == environment.Setup {
		return b.finish(ctx, t)
	}
	return b.store.Ready(ctx, t.key, t.built.Bytes)
}

var errNoResult = errors.New("it left no result")

// built is the result of the last build; nil without a whole one.
func (b builder) built(key string) (*job.Built, error) {
	return files.Read(b.file(key, paths.Result), job.Read[job.Built])
}

// maxShown bounds the output of a build that people see, in bytes.
const maxShown = 4 << 10

// lastOutput is the end of the output of a build, with a text before it. Foreign programs wrote it.
func (b builder) lastOutput(key string) string {
	file, err := os.Open(b.file(key, paths.Output))
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
	return outputMark + shown
}

// outputMark stands before the output of a build in the reason for its failure.
const outputMark = "; its output ends with:\n"

// WithoutOutput is a reason as the journal has it, which more people read than the user alone: without the output of a
// build.
func WithoutOutput(reason string) string {
	reason, _, _ = strings.Cut(reason, outputMark)
	return reason
}

// dir has the files of the last build of an environment.
func (b builder) dir(key string) string { return filepath.Join(b.state, paths.EnvironmentDir(key)) }

// forgetFiles removes the files of the last build of an environment.
func (b builder) forgetFiles(key string) error { return os.RemoveAll(b.dir(key)) }

// file is the path of a file of the last build of an environment.
func (b builder) file(key, name string) string {
	return filepath.Join(b.dir(key), name)
}

// writeOrder writes the files of a build that is about to start.
func (b builder) writeOrder(t *task) error {
	order := job.Build{
		Version: job.Version, SetUp: t.setUp, Bytes: b.config.MaxBytes, Sandbox: b.config.Sandbox,
	}
	if t.order != nil {
		order.Order = *t.order
	}
	text, err := json.Marshal(order)
	if err == nil {
		err = os.MkdirAll(b.dir(t.key), 0o700)
	}
	if err == nil {
		err = os.RemoveAll(b.file(t.key, paths.Result)) // of an earlier build
	}
	if err == nil {
		err = files.Replace(b.file(t.key, paths.Order), text)
	}
	if err != nil {
		return fmt.Errorf("cannot write the order of an environment: %w", err)
	}
	return nil
}
