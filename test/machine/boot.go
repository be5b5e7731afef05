package machine

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// RequireEnv is the environment variable that turns a skip of Boot into a
// failure when it is 1.
const RequireEnv = "CODEX_PROXY_TEST_REQUIRE"

// Boot starts a machine for t and closes it when t ends. If t failed it prints
// the state of options.Units and the journal first. Where no machine can run
// at all, t is skipped with the reason, unless RequireEnv is set.
func Boot(t testing.TB, root Root, options Options) *Machine {
	t.Helper()
	m, err := Start(t.Context(), root, options)
	if errors.Is(err, ErrUnable) && os.Getenv(RequireEnv) != "1" {
		line, _, _ := strings.Cut(err.Error(), "\n")
		t.Skip(line)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			m.dump(t)
		}
		if used, err := m.CPU(); err == nil {
			t.Logf("the machine used %.1f s of CPU", used.Seconds()) // make test lists the most
		}
		if err := m.Close(); err != nil {
			t.Errorf("cannot close the machine: %v", err)
		}
	})
	return m
}

// MustRun runs a command, fails t if its exit status is not 0, and returns its
// stdout. It is bounded by three minutes.
func (m *Machine) MustRun(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stdout, _, err := m.Run(ctx, args...)
	require.NoError(t, err, stdout)
	return stdout
}

// dump prints what a person needs to know why a test failed. t's own context
// has ended when it runs.
func (m *Machine) dump(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	show := func(title string, args ...string) {
		stdout, stderr, _ := m.Run(ctx, args...)
		t.Logf("--- %s\n%s%s", title, stdout, stderr)
	}
	if len(m.options.Units) > 0 {
		show("units", append([]string{"systemctl", "status", "--all", "--full", "--no-pager", "--lines=0"},
			m.options.Units...)...)
		show("journal of the units", unitJournal(m.options.Units)...)
	}
	show("failed units", "systemctl", "list-units", "--failed", "--no-legend", "--plain")
	show("end of the journal", "journalctl", "--boot", "--no-pager", "--output=short-monotonic", "--lines=60")
}

func unitJournal(units []string) []string {
	args := []string{"journalctl", "--boot", "--no-pager", "--output=short-monotonic", "--lines=300"}
	for _, u := range units {
		args = append(args, "--unit="+u)
	}
	return args
}
