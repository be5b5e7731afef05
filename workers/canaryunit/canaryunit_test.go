package canaryunit

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/canary"
	"codex-proxy/codex/versions"
	"codex-proxy/test/codexes"
)

// try has more time for each step than a machine has, for it may be busy.
func try(t *testing.T, program, before string) error {
	t.Helper()
	return tryWithin(t, 2*time.Minute, program, before)
}

func tryWithin(t *testing.T, limit time.Duration, program, before string) error {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "canary") // codex's sandbox has a /tmp of its own
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	trial := Trial{Program: program, Before: before, Dir: dir, Version: "test", Limit: limit,
		Logger: slog.New(slog.DiscardHandler)}
	return trial.Run(t.Context())
}

// Each codex of the tests passes. 0.140 does not: it does not report the end of a response that calls a tool.
func TestGoodCodexesPass(t *testing.T) {
	for version, program := range codexes.All(t) {
		if versions.Older(version, versions.OldestForRemotes) {
			continue
		}
		t.Run(version, func(t *testing.T) { assert.NoError(t, try(t, program, "")) })
	}
}

// The fake codex passes without a fault, and fails with each of them, with its reason.
func TestFaultsAreNamed(t *testing.T) {
	t.Run("good", func(t *testing.T) { require.NoError(t, try(t, fakeCodex(t, "good"), "")) })
	for fault, want := range map[string]struct{ step, reason string }{
		"exits":      {"its settings as a remote", "codex does not run (exit status 3): fatal: there is no room"},
		"exits late": {"its start", "it has ended with status 4: fatal: it cannot listen"},
		"refuses":    {"its settings as a remote", `does not take the setting "thread_unload_delay_secs"`},
		"no sandbox": {"its settings as a native worker", "codex cannot run a command in its sandbox"},
		"hangs":      {"the handshake", "it has not finished within 30s"},
		"no models":  {"the list of models", "it lists 1 models, and not that of its catalogue"},
		"fails":      {"a plain turn", "no such table: threads"},
		"doubles":    {"a plain turn", `and codex reported "Yes`},
		"asks twice": {"a plain turn", "codex asked the model 2 times, and not once"},
		"no tools":   {"a turn with a tool", "it has not finished within 30s"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			var failed *canary.Failure
			limit := 2 * time.Minute
			if strings.HasPrefix(want.reason, "it has not finished") {
				limit = 30 * time.Second
			}
			err := tryWithin(t, limit, fakeCodex(t, fault), "")
			require.True(t, errors.As(err, &failed), "%v", err)
			assert.Equal(t, want.step, failed.Step)
			assert.Contains(t, failed.Reason, want.reason)
		})
	}
}

// A machine without a sandbox for any codex is no fault of the new one.
func TestNoSandboxAtAll(t *testing.T) {
	program := fakeCodex(t, "no sandbox")
	require.NoError(t, try(t, program, program))
	require.Error(t, try(t, program, fakeCodex(t, "good")))
}
