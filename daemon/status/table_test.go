package status

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestStatusGolden(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	next := now.Add(4200 * time.Millisecond)
	worker := func(name, active, sub string, reason probes.Reason) probes.Worker {
		return probes.Worker{Name: name, Unit: "codex-worker@" + name + ".service", ActiveState: active, SubState: sub, Reason: reason, Ready: reason == probes.Ready}
	}
	busy := worker("default", "active", "running", probes.Ready)
	busy.Inflight, busy.RestartsTotal = 3, 2
	busy.LastExit = &probes.Exit{Result: "signal", Code: "killed", Status: "SIGKILL", At: ago(26*time.Hour + 5*time.Minute)}
	waiting := worker("second", "activating", "auto-restart", probes.BackingOff)
	waiting.RestartsTotal, waiting.NextRestartAt = 7, &next
	waiting.LastExit = &probes.Exit{Result: "exit-code", Code: "exited", Status: "1", At: ago(900 * time.Millisecond)}
	drained := worker("third", "active", "running", probes.Draining)
	drained.Drained, drained.Inflight = true, 1
	limit := worker("default", "failed", "failed", probes.StartLimitHit)
	limit.RestartsTotal = 15
	limit.LastExit = &probes.Exit{Result: "exit-code", At: ago(72 * time.Hour)}
	unmet := worker("default", "active", "running", probes.DependencyNotReady)
	unmet.Unmet = []string{"temporal"}
	up := probes.Dependency{Name: "db", Unit: "codex-dependency@db.service", ActiveState: "active", SubState: "running",
		Ready: true, Reason: probes.DependencyReady, Since: ago(3 * time.Hour)}
	down := probes.Dependency{Name: "temporal", Unit: "codex-dependency@temporal.service", ActiveState: "activating",
		SubState: "auto-restart", Reason: probes.DependencyBackingOff, Since: ago(time.Second), RestartsTotal: 4,
		NextRestartAt: &next, LastExit: busy.LastExit,
		RequiredBy: []string{"codex-proxy.service", "codex-worker@default.service"}}
	stopped := probes.Dependency{Name: "search", Unit: "codex-dependency@search.service", ActiveState: "inactive",
		SubState: "dead", Reason: probes.DependencyStopped}
	remote := func(name, active, sub string, reason probes.RemoteReason, use *probes.RemoteUse) probes.Remote {
		return probes.Remote{Name: name, Unit: "codex-remote@" + name + ".service", ActiveState: active, SubState: sub,
			Reason: reason, Ready: reason == probes.RemoteReady, Since: ago(time.Hour), Use: use}
	}
	works := remote("build", "active", "running", probes.RemoteReady, &probes.RemoteUse{Viewers: 2,
		TurnSince: ago(90 * time.Second), AloneSince: ago(time.Minute), Account: "second", Continued: 3,
		Unknown: []string{"thread/new/list", "x/do"}})
	works.RestartsTotal = 3
	invalid := remote("docs", "failed", "failed", probes.RemoteInvalid, nil)
	invalid.StatusText = "Not started: docs.toml:3: unknown key"
	for name, snap := range map[string]probes.Snapshot{
		"remotes": {Workers: []probes.Worker{busy}, Remotes: []probes.Remote{works, invalid,
			remote("rest", "inactive", "dead", probes.RemoteAsleep, &probes.RemoteUse{})}},
		"brokers": {Workers: []probes.Worker{busy}, Brokers: []probes.Broker{
			{Name: "azure", ActiveState: "active", SubState: "running", Endpoint: "https://a.test", Connections: 1, Streams: 2,
				Requests: 71, Failure: &probes.BrokerFailure{Reason: "no-answer", At: ago(2 * time.Hour), Over: true}},
			{Name: "default", ActiveState: "active", SubState: "running", Endpoint: "https://model.test:8443", Requests: 4,
				Failure: &probes.BrokerFailure{Reason: "certificate", At: ago(time.Minute)}},
			{Name: "new", ActiveState: "activating", SubState: "start"}}},
		"ready":       {Workers: []probes.Worker{busy, waiting, drained}},
		"start-limit": {Workers: []probes.Worker{limit}},
		"unheard":     {Workers: []probes.Worker{worker("default", "", "", probes.Starting)}},
		"no-worker":   {},
		"dependencies": {
			Workers: []probes.Worker{unmet}, Dependencies: []probes.Dependency{up, stopped, down},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := probes.NewTracker(ago(time.Hour), func(probes.Flip) {})
			snap.At = ago(250 * time.Second)
			snap.Queue = probes.Queue{Depth: len(snap.Workers) / 2, Limit: 64, OldestWaitMS: 1234.5}
			var got bytes.Buffer
			writeTable(&got, tracker.Observe(snap), now)
			file := filepath.Join("testdata", "status-"+name+".txt")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "go test ./daemon/status -run TestStatusGolden -update writes it")
			assert.Equal(t, string(want), got.String())
		})
	}
}
