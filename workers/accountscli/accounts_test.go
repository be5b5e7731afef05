package accountscli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/paths"
	"codex-proxy/packaging/etc"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
)

// bound is for what is done at once.
const bound = time.Minute

// received returns the next value of c.
func received[T any](t *testing.T, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(bound):
		t.Fatal("nothing came in time")
	}
	return value
}

// configured are settings of one worker.
func configured() ([]string, error) { return []string{DefaultWorker}, nil }

func off() (accounts.Policy, error) {
	return accounts.Policy{Rotation: accounts.Off, RotateAt: 0.05}, nil
}

func TestWordsOfLogins(t *testing.T) {
	for want, a := range map[string]accounts.Account{
		"chatgpt": {Login: "chatgpt"}, "api_key": {Login: "apiKey"}, "other": {Login: "amazonBedrock"}, "missing": {Required: true}, "not_needed": {},
	} {
		assert.Equal(t, want, loginOf(a))
		assert.NotEmpty(t, loginWords[want])
	}
	assert.NotEmpty(t, loginWords[loginUnknown])
}

// A new worker's file is the packaged one, and speaks of that worker.
func TestWorkerFileOfANewWorker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "night.toml")
	require.NoError(t, writeWorkerFile(file, "night"))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "# The worker \"night\": codex-worker@night.service.\n")
	assert.Contains(t, string(text), "codex-proxy accounts login night\n")
	assert.NotContains(t, string(text), "@default")
	assert.Contains(t, string(text), "no setting falls back to its default.")
	w, err := codexhome.Load(file)
	require.NoError(t, err)
	assert.True(t, w.NeedsLogin())
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())
	assert.ErrorContains(t, writeWorkerFile(file, "night"), `there is a worker "night" already`)

	shipped, err := os.ReadFile("../../packaging/etc/workers/default.toml")
	require.NoError(t, err)
	assert.Equal(t, string(shipped), etc.Worker)
	assert.Equal(t, etc.Worker, workerFileFor("default"))
}

func TestWhoNeedsNoLogin(t *testing.T) {
	for text, want := range map[string]string{
		`mode = "plain"`: "", `mode = "demo"`: "it is the demo",
		"mode = \"plain\"\nmodel = \"m\"\n[provider]\nname = \"local\"\nbase_url = \"http://127.0.0.1:1/v1\"\n": "its requests go to another endpoint",
	} {
		file := filepath.Join(t.TempDir(), "w.toml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		w, err := codexhome.Load(file)
		require.NoError(t, err)
		if err = needsLogin(w); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

// While the target is stopped a login starts no worker, also none that has failed;
// one that somebody runs without the target takes its login up.
func TestLoginStartsNothingWhileTheTargetIsStopped(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	var printed bytes.Buffer
	o := Accounts{Systemd: units.NewManager(), Stderr: &printed}
	defer o.Systemd.Close()
	require.NoError(t, o.takeUp(t.Context(), "a"))
	assert.Equal(t, "There is no unit codex-worker@a.service to start.\n", printed.String())
	worker, target, restarts := systemd.Unit(units.Worker("a")), systemd.Unit(paths.TargetUnit), 0
	for _, tc := range []struct {
		target, worker string
		want           string
		restart        bool
	}{
		{"inactive", "inactive", "Start it: systemctl start codex-proxy", false},
		{"inactive", "failed", "Start it: systemctl start codex-proxy", false},
		{"inactive", "deactivating", "Start it: systemctl start codex-proxy", false},
		{"inactive", "activating", "Starting codex-worker@a.service.", true},
		{"inactive", "active", "Restarting codex-worker@a.service; ", true},
		{"active", "inactive", "Starting codex-worker@a.service.", true},
		{"active", "failed", "Starting codex-worker@a.service.", true},
	} {
		printed.Reset()
		target.SetSilently(unitstest.Properties{"ActiveState": tc.target})
		worker.SetSilently(unitstest.Properties{"ActiveState": tc.worker})
		require.NoError(t, o.takeUp(t.Context(), "a"))
		assert.Contains(t, printed.String(), tc.want, "%+v", tc)
		if tc.restart {
			restarts++
		}
		assert.Equal(t, restarts, systemd.Calls("RestartUnit"), "%+v", tc)
	}
}

// A reload that is under way may have read the settings before they changed.
func TestReloadAfterAReload(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	var printed bytes.Buffer
	o := Accounts{Systemd: units.NewManager(), Workers: configured, Stderr: &printed}
	defer o.Systemd.Close()
	for _, tc := range []struct {
		state string
		calls int
	}{{"inactive", 0}, {"deactivating", 0}, {"active", 1}, {"reloading", 2}, {"refreshing", 3}} {
		systemd.Unit(paths.ServiceUnit).SetSilently(unitstest.Properties{"ActiveState": tc.state})
		o.reloadProxy(t.Context(), func([]string) string { return "" })
		assert.Equal(t, tc.calls, systemd.Calls("ReloadUnit"), tc.state)
	}
	assert.Equal(t, 3, strings.Count(printed.String(), "codex-proxy.service is reloaded."), printed.String())
}

// A start that is under way may have read the settings, too, and nothing that starts
// can be reloaded.
func TestReloadAfterAStart(t *testing.T) {
	for _, tc := range []struct {
		name, state, sub string
		calls            int
		want             string
	}{
		{"it succeeds", "active", "running", 1, "codex-proxy.service is reloaded.\n"},
		{"it fails", "failed", "failed", 0, ""},
		{"it is tried again", "activating", "auto-restart", 0, ""},
		{"it goes on without a job", "activating", "start", 0,
			"The service does not know of it yet: it is still starting; then systemctl reload codex-proxy\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			systemd := unitstest.Start(t).Systemd
			proxy := systemd.Unit(paths.ServiceUnit)
			proxy.Jobs("")
			var printed bytes.Buffer
			o := Accounts{Systemd: units.NewManager(), Workers: configured, Stderr: &printed}
			defer o.Systemd.Close()
			started, reloaded := make(chan error, 1), make(chan struct{})
			go func() { started <- o.Systemd.Start(t.Context(), paths.ServiceUnit) }()
			called := func(method string) {
				t.Helper()
				require.Eventually(t, func() bool { return systemd.Calls(method) > 0 }, bound, time.Millisecond, method)
			}
			called("StartUnit")
			proxy.Set(unitstest.Properties{"ActiveState": "activating", "SubState": "start"})
			go func() {
				defer close(reloaded)
				o.reloadProxy(t.Context(), func([]string) string { return "" })
			}()
			called("GetUnit") // for the job
			proxy.Set(unitstest.Properties{"ActiveState": tc.state, "SubState": tc.sub})
			proxy.EndJob("done")
			received(t, reloaded)
			assert.Equal(t, tc.calls, systemd.Calls("ReloadUnit"))
			assert.Equal(t, tc.want, printed.String())
			require.NoError(t, received(t, started))
		})
	}
}
