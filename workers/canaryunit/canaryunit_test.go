package canaryunit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/canary"
	"codex-proxy/codex/versions"
	"codex-proxy/test/codexes"
	"codex-proxy/test/nightly"
)

// enough is more time for each step than a machine needs, for it may be busy.
func enough(string) time.Duration { return 2 * time.Minute }

// late is too little for the step.
func late(step string) canary.Limit {
	return func(s string) time.Duration {
		if s == step {
			return 100 * time.Millisecond
		}
		return enough(s)
	}
}

var once = []canary.Limit{enough}

func newTrial(t *testing.T, program string) *Trial {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "canary") // codex's sandbox has a /tmp of its own
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &Trial{Program: program, Dir: dir, Version: "test", Logger: slog.New(slog.DiscardHandler)}
}

// The pinned codex passes, and by night each codex of the tests. 0.140 does not: it does not report the end of a response
// that calls a tool.
func TestGoodCodexesPass(t *testing.T) {
	pinned := codexes.Pinned(t)
	for version, program := range codexes.All(t) {
		if versions.Older(version, versions.MarksResponses) || version != pinned && !nightly.Is() {
			continue
		}
		t.Run(version, func(t *testing.T) {
			trial := newTrial(t, program)
			// 0.153 does not answer each interrupt of a turn with a tool, so that a step can be late.
			limits := []canary.Limit{func(string) time.Duration { return 20 * time.Second }, enough}
			require.NoError(t, trial.run(t.Context(), limits, trial.settings()))
			assert.Equal(t, version, trial.Found())
		})
	}
}

// The fake codex passes without a fault, and fails with each of them, with its reason. The steps before that one are left
// out: they pass.
func TestFaultsAreNamed(t *testing.T) {
	for fault, want := range map[string]struct{ step, reason string }{
		"good":       {},
		"exits":      {"its settings as a remote", "codex does not run (exit status 3): fatal: there is no room"},
		"refuses":    {"its settings as a remote", `does not take the setting "thread_unload_delay_secs"`},
		"no sandbox": {"its settings as a native worker", "codex cannot run a command in its sandbox"},
		"exits late": {"its start", "it has ended with status 4: fatal: it cannot listen"},
		"hangs":      {"the handshake", "it has not finished within 100ms"},
		"no models":  {"the list of models", "it lists 1 models, and not that of its catalogue"},
		"fails":      {"a plain turn", "no such table: threads"},
		"doubles":    {"a plain turn", `and codex reported "Yes`},
		"asks twice": {"a plain turn", "codex asked the model 2 times, and not once"},
		"no tools":   {"a turn with a tool", "it has not finished within 100ms"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			trial := newTrial(t, fakeCodex(t, fault))
			limits, hangs := once, strings.HasPrefix(want.reason, "it has not finished")
			if hangs {
				limits = []canary.Limit{late(want.step)}
			}
			steps := trial.settings()
			if at := slices.IndexFunc(steps, func(s canary.Step) bool { return s.Name == want.step }); at >= 0 {
				steps = steps[at:]
			} else {
				steps = []canary.Step{{Name: "the home of the fake", Run: trial.fakeHome}}
			}
			err := trial.run(t.Context(), limits, steps)
			if fault == "good" {
				require.NoError(t, err)
				return
			}
			var failed *canary.Failure
			require.True(t, errors.As(err, &failed), "%v", err)
			assert.Equal(t, want.step, failed.Step)
			assert.Contains(t, failed.Reason, want.reason)
			assert.Equal(t, hangs, failed.Late)
		})
	}
}

// fakeHome is the home of a plain worker as far as the fake codex reads it as a server.
func (t *Trial) fakeHome(context.Context) (err error) {
	if t.home, err = t.newHome("plain"); err != nil {
		return err
	}
	config := fmt.Sprintf("model = %q\nmodel_provider = \"canary\"\n[model_providers.canary]\nbase_url = %q\n", canary.Model, t.url)
	_ = os.Remove(filepath.Join(t.home.Runtime, "codex"))
	return errors.Join(os.WriteFile(filepath.Join(t.home.Dir, "config.toml"), []byte(config), 0o600),
		os.Symlink(t.Program, filepath.Join(t.home.Runtime, "codex")))
}

// Once a step was late, those after it have more time at once: on a slow machine all would be late.
func TestAfterALateStepTheOthersHaveMoreTime(t *testing.T) {
	t.Parallel()
	trial := newTrial(t, fakeCodex(t, "good"))
	var runs []string
	slow := func(name string, late int) canary.Step {
		return canary.Step{Name: name, Run: func(ctx context.Context) error {
			runs = append(runs, name)
			if late--; late >= 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return trial.fakeHome(ctx)
		}}
	}
	none := func(string) time.Duration { return 0 }
	steps := []canary.Step{slow("one", 1), slow("two", 0)}
	require.NoError(t, trial.run(t.Context(), []canary.Limit{none, enough}, steps))
	assert.Equal(t, []string{"one", "one", "two"}, runs)
}

// A server that is late is tried again, in the same home.
func TestALateServerRunsAgain(t *testing.T) {
	t.Parallel()
	trial := newTrial(t, fakeCodex(t, "hangs once"))
	steps := []canary.Step{{Name: "the home of the fake", Run: trial.fakeHome}}
	require.NoError(t, trial.run(t.Context(), []canary.Limit{late("the handshake"), enough}, steps))
}

// A machine without a sandbox for any codex is no fault of the new one.
func TestNoSandboxAtAll(t *testing.T) {
	t.Parallel()
	trial := newTrial(t, fakeCodex(t, "no sandbox"))
	trial.Before, trial.url = trial.Program, "http://127.0.0.1:1/v1"
	require.NoError(t, trial.asNative(t.Context()))
	trial.Before = fakeCodex(t, "good")
	require.Error(t, trial.asNative(t.Context()))
}
