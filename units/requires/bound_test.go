package requires

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
)

// systemd has the units of a test, and the starts that were queued.
type systemd struct {
	units  map[string]units.Description
	queued []string
}

func (s *systemd) Describe(_ context.Context, unit string) (units.Description, error) {
	d, ok := s.units[unit]
	if !ok {
		return d, errors.New("systemd does not answer")
	}
	return d, nil
}

func (s *systemd) Enqueue(_ context.Context, unit string) error {
	s.queued = append(s.queued, unit)
	return nil
}

func described(state string, job bool, leftInactive, leftActive, becameInactive time.Duration) units.Description {
	return units.Description{
		State:        units.State{ActiveState: state, JobPending: job},
		LeftInactive: leftInactive, LeftActive: leftActive, BecameInactive: becameInactive,
	}
}

// The dependency of these cases has been active from 10 to 20.
func TestEndsWith(t *testing.T) {
	ended := described("deactivating", false, 10, 20, 5)
	for _, tc := range []struct {
		name       string
		unit       units.Description
		dependency units.Description
		want       bool
	}{
		{"it runs", described("active", false, 11, 0, 0), ended, true},
		{"it starts", described("activating", true, 19, 0, 0), ended, true},
		{"it waits for its restart", described("activating", false, 19, 18, 18), ended, true},
		{"systemd stops it already", described("deactivating", true, 11, 21, 0), ended, true},
		{"systemd has stopped it", described("inactive", false, 11, 21, 22), ended, true},
		{"it failed at that stop", described("failed", false, 11, 21, 22), ended, true},
		{"systemd has ended its wait for a restart", described("inactive", false, 19, 18, 21), ended, true},
		{"an operator has stopped it", described("inactive", false, 11, 15, 16), ended, false},
		{"an operator stops it, and its turns go on", described("deactivating", true, 11, 15, 0), ended, false},
		{"an operator's stop has ended since", described("inactive", false, 11, 15, 21), ended, false},
		{"it has never run", described("inactive", false, 0, 0, 0), ended, false},
		{"its start waits for the dependency", described("inactive", true, 0, 0, 0),
			described("deactivating", true, 10, 0, 0), true},
		{"the dependency did not start, and it was stopped before", described("inactive", false, 1, 8, 9),
			described("deactivating", true, 10, 7, 8), false},
	} {
		assert.Equal(t, tc.want, endsWith(tc.unit, tc.dependency), tc.name)
	}
}

func TestBoundUnitsAreStartedAgain(t *testing.T) {
	ended := described("deactivating", false, 10, 20, 5)
	s := &systemd{units: map[string]units.Description{
		"codex-dependency@db.service": ended,
		"codex-worker@a.service":      described("active", false, 11, 0, 0),
		"codex-worker@b.service":      described("inactive", false, 11, 15, 16),
		"codex-proxy.service":         described("deactivating", true, 11, 21, 0),
	}}
	b := Bound{Dir: filepath.Join(t.TempDir(), "bound"), Systemd: s}
	bound := []string{"codex-proxy.service", "codex-worker@a.service", "codex-worker@b.service"}
	require.NoError(t, b.Record(t.Context(), "db", bound))
	// The next attempt of the dependency fails, too: what is recorded stays so.
	s.units["codex-worker@a.service"] = described("inactive", false, 11, 21, 22)
	s.units["codex-dependency@db.service"] = described("deactivating", true, 30, 20, 25)
	require.NoError(t, b.Record(t.Context(), "db", bound))
	assert.Empty(t, s.queued)
	require.NoError(t, b.Start(t.Context(), "db", []string{"codex-worker@a.service", "codex-worker@b.service"}))
	assert.Equal(t, []string{"codex-worker@a.service"}, s.queued, "the service is not bound any more")
	require.NoError(t, b.Start(t.Context(), "db", bound))
	assert.Len(t, s.queued, 1, "once")
	assert.ErrorContains(t, b.Record(t.Context(), "other", bound), "does not answer")
	assert.Error(t, b.Record(t.Context(), "db", []string{"codex-worker@x.service", "codex-worker@a.service"}))
}

func TestGenerate(t *testing.T) {
	dir, out := settings(t, map[string]string{
		"config.toml":    "requires = [\"temporal\", \"db\"]\n",
		"workers/a.toml": "requires = [\"db\"]\nbind_requires = true\n",
		"workers/b.toml": "requires = [\"Db\"]\n",
		"workers/c.toml": "mode = \"plain\"\n",
	}), t.TempDir()
	assert.ErrorContains(t, Generate(dir, out), "b.toml: requires: cannot use \"Db\"")
	made := map[string]string{}
	require.NoError(t, filepath.Walk(out, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			text, _ := os.ReadFile(path)
			made[path[len(out)+1:]] = string(text)
		}
		return err
	}))
	assert.Equal(t, map[string]string{
		"codex-proxy.service.d/60-requires.conf": "# Made of " + dir + "/config.toml at a daemon-reload: edit that file.\n" +
			"[Unit]\nWants=codex-dependency@temporal.service codex-dependency@db.service\n" +
			"After=codex-dependency@temporal.service codex-dependency@db.service\n",
		"codex-worker@a.service.d/60-requires.conf": "# Made of " + dir + "/workers/a.toml at a daemon-reload: " +
			"edit that file.\n[Unit]\nBindsTo=codex-dependency@db.service\nAfter=codex-dependency@db.service\n",
		"codex-dependency@db.service.d/60-bound.conf": "# Made of bind_requires at a daemon-reload.\n[Service]\n" +
			"ExecStartPost=-+/usr/bin/codex-proxy dependency-bound start %i codex-worker@a.service\n" +
			"ExecStopPost=-+/usr/bin/codex-proxy dependency-bound record %i codex-worker@a.service\n",
	}, made)
}
