package dependenciescli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/listing"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// someRows are dependencies of each kind at now.
func someRows(now time.Time) list {
	unit := func(name, active, sub string, reason probes.DependencyReason) row {
		return row{Check: "tcp:127.0.0.1:1", Interval: "5s", Dependency: probes.Dependency{
			Name: name, Unit: units.Dependency(name), ActiveState: active, SubState: sub, Reason: reason,
			Ready: reason == probes.DependencyReady, Since: now.Add(-40 * time.Minute)}}
	}
	ready := unit("temporal", "active", "running", probes.DependencyReady)
	ready.StatusText, ready.AtBoot, ready.AtReady = "grpc 127.0.0.1:7233: SERVING", true, "temporal:127.0.0.1:7233"
	ready.RequiredBy = []string{"codex-proxy.service", "codex-worker@a.service"}
	waiting := unit("db", "activating", "auto-restart", probes.DependencyBackingOff)
	next := now.Add(800 * time.Millisecond)
	waiting.NextRestartAt, waiting.RestartsTotal = &next, 3
	waiting.LastExit = &probes.Exit{Result: "exit-code", Code: "exited", Status: "1", At: now}
	refused := unit("night", "failed", "failed", probes.DependencyRefused)
	refused.StatusText = "port 7233 is held by pid 812 (temporal\x1b server), unit session-3.scope"
	missing := row{Error: "/etc/x.toml: there is no such file", Dependency: probes.Dependency{Name: "x",
		Unit: "codex-dependency@x.service", Reason: probes.DependencyInvalid}}
	return list{Dependencies: []row{ready, waiting, refused, unit("s", "inactive", "dead", probes.DependencyStopped),
		missing}}
}

func TestPage(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var page bytes.Buffer
	require.NoError(t, writeList(listing.Paper{}, &page, someRows(now), now))
	assert.Equal(t, `temporal  ready since 11:20, 40m
  why      grpc 127.0.0.1:7233: SERVING
  check    tcp:127.0.0.1:1 every 5s, and temporal:127.0.0.1:7233 at the start
  restarts 0
  needed   codex-proxy.service, codex-worker@a.service
  unit     codex-dependency@temporal.service, active (running), starts at boot

db  backing off since 11:20, 40m
  why      last exit status 1 (exit-code); systemd restarts it; see journalctl -u codex-dependency@db.service
  check    tcp:127.0.0.1:1 every 5s
  restarts 3, the next in 0.8s
  unit     codex-dependency@db.service, activating (auto-restart)

night  refused since 11:20, 40m
  why      port 7233 is held by pid 812 (temporal server), unit session-3.scope; `+
		"systemctl start codex-dependency@night.service\n"+`  check    tcp:127.0.0.1:1 every 5s
  restarts 0
  unit     codex-dependency@night.service, failed (failed)

s  stopped since 11:20, 40m
  why      systemctl start codex-dependency@s.service
  check    tcp:127.0.0.1:1 every 5s
  restarts 0
  unit     codex-dependency@s.service, inactive (dead)

x  invalid
  why      mend the file until codex-proxy dependencies check x reports no fault, then `+
		"systemctl daemon-reload && systemctl restart codex-dependency@x.service\n"+`  restarts 0
  unit     unknown to systemd
  error    /etc/x.toml: there is no such file
`, page.String())
	page.Reset()
	require.NoError(t, writeList(listing.Paper{Colour: true}, &page, someRows(now), now))
	for _, want := range []string{"\x1b[32mready\x1b[0m", "\x1b[33mbacking off\x1b[0m", "\x1b[31mrefused\x1b[0m"} {
		assert.Contains(t, page.String(), want)
	}
	page.Reset()
	require.NoError(t, writeList(listing.Paper{}, &page, list{}, now))
	assert.Equal(t, "There are no dependencies; codex-proxy dependencies add makes one.\n", page.String())
}

func TestList(t *testing.T) {
	b := newBed(t)
	b.write(t, "a", simple)
	b.write(t, "bad", "x = 1\n")
	b.settings(t, "config.toml", "requires = [\"a\", \"gone\"]\n")
	unit := b.systemd.Unit(units.Dependency("a"))
	unit.Start("tcp 127.0.0.1:1")
	unit.SetSilently(unitstest.Properties{"UnitFileState": "enabled"})
	b.JSON = true
	require.NoError(t, b.List(t.Context(), ""))
	var got struct {
		Dependencies []map[string]any `json:"dependencies"`
	}
	require.NoError(t, json.Unmarshal(b.stdout.Bytes(), &got))
	require.Len(t, got.Dependencies, 3)
	a, bad, gone := got.Dependencies[0], got.Dependencies[1], got.Dependencies[2]
	for key, want := range map[string]any{
		"name": "a", "unit": "codex-dependency@a.service", "active_state": "active", "ready": true, "reason": "ready",
		"status_text": "tcp 127.0.0.1:1", "restarts_total": 0.0, "required_by": []any{"codex-proxy.service"},
		"check": "tcp:127.0.0.1:1", "interval": "5s", "at_boot": true,
	} {
		assert.Equal(t, want, a[key], key)
	}
	assert.NotEmpty(t, a["since"])
	assert.Contains(t, bad["error"], `bad.toml:1: unknown key "x"`)
	assert.Contains(t, gone["error"], "there is no such file")
	assert.Equal(t, []any{"codex-proxy.service"}, gone["required_by"])
}

// The state is one look at systemd.
func TestRowOf(t *testing.T) {
	now := time.Now()
	for want, u := range map[probes.DependencyReason]units.State{
		probes.DependencyReady:      {ActiveState: "active", SubState: "running", NRestarts: 2},
		probes.DependencyStopped:    {ActiveState: "inactive", SubState: "dead"},
		probes.DependencyBackingOff: {ActiveState: "activating", SubState: "auto-restart", NextRestartAt: now},
		probes.DependencyRefused: {ActiveState: "failed", SubState: "failed", Result: "exit-code", ExecMainCode: 1,
			ExecMainStatus: 75},
	} {
		u.StateChangedAt = now
		r := rowOf("a", "/no/such/a.toml", nil, units.Description{State: u})
		assert.Equal(t, want, r.Reason, "%+v", u)
		assert.Equal(t, want == probes.DependencyReady, r.Ready)
		assert.Equal(t, uint64(u.NRestarts), r.RestartsTotal)
		assert.Equal(t, now, r.Since)
		if want == probes.DependencyRefused {
			assert.Equal(t, "75", r.LastExit.Status)
		}
		assert.Equal(t, !u.NextRestartAt.IsZero(), r.NextRestartAt != nil)
		assert.Equal(t, []string{}, r.RequiredBy)
		assert.Contains(t, r.Error, "there is no such file")
	}
}

// The service counts over longer than systemd, and knows an earlier begin.
func TestWhatTheServiceHasCounted(t *testing.T) {
	now := time.Now()
	r := row{Dependency: probes.Dependency{Name: "a", Reason: probes.DependencyReady, Since: now, RestartsTotal: 1}}
	r.counted([]probes.Dependency{{Name: "b", RestartsTotal: 9},
		{Name: "a", Reason: probes.DependencyReady, Since: now.Add(-time.Hour), RestartsTotal: 4}})
	assert.Equal(t, uint64(4), r.RestartsTotal)
	assert.Equal(t, now.Add(-time.Hour), r.Since)
	r.counted([]probes.Dependency{{Name: "a", Reason: probes.DependencyStarting, Since: now.Add(-2 * time.Hour)}})
	assert.Equal(t, now.Add(-time.Hour), r.Since, "of another state")
	assert.Equal(t, uint64(4), r.RestartsTotal)
}

// systemd gets no units for more files: the list shows the others, and says so.
func TestListOfMoreFilesThanMayBe(t *testing.T) {
	b := newBed(t)
	for i := range settingsfile.MaxFiles + 2 {
		b.write(t, fmt.Sprintf("d%03d", i), "no = settings\n")
	}
	l, err := b.collect(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Dependencies, settingsfile.MaxFiles)
	assert.Equal(t, "d255", l.Dependencies[255].Name)
	assert.NotEmpty(t, l.Dependencies[0].Error)
	assert.Contains(t, b.stderr.String(), "d256 and those after it are left out")
}
