package dependencies

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
)

// lived logs the states of a dependency, one after the other, a second each, and returns the lines.
func lived(states ...probes.Dependency) []string {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	e := NewEvents(logger, func(string) time.Duration { return 15 * time.Second })
	var before probes.Dependency
	for i, after := range states {
		after.Name, after.Unit, after.Since = "d", "codex-dependency@d.service", time.Unix(int64(i), 0)
		after.Ready = after.Reason == probes.DependencyReady
		e.Changed(before, after)
		before = after
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func of(reason probes.DependencyReason) probes.Dependency { return probes.Dependency{Reason: reason} }

// ended is a state after the n-th end of the server.
func ended(reason probes.DependencyReason, n int64, result string) probes.Dependency {
	return probes.Dependency{Reason: reason, RestartsTotal: uint64(n),
		LastExit: &probes.Exit{Result: result, Code: "killed", Status: "SIGKILL", At: time.Unix(1000+n, 0)}}
}

const whose = " dependency=d unit=codex-dependency@d.service "

func TestDependencyEvents(t *testing.T) {
	const ready, starting, backingOff = probes.DependencyReady, probes.DependencyStarting, probes.DependencyBackingOff
	const exited, stopping, stopped = probes.DependencyExited, probes.DependencyStopping, probes.DependencyStopped
	for name, c := range map[string]struct {
		states []probes.Dependency
		lines  []string
	}{
		"ready when the proxy starts":   {[]probes.Dependency{of(ready)}, []string{""}},
		"stopped when the proxy starts": {[]probes.Dependency{of(stopped)}, []string{""}},
		"unknown, then ready": {[]probes.Dependency{of(starting), of(ready)},
			[]string{`level=INFO msg="dependency ready"` + whose + "restarts=0"}},
		"probes that pass and fail": {[]probes.Dependency{of(ready), {Reason: ready, StatusText: "Not answering"}, of(ready)},
			[]string{""}},
		"a crash": {[]probes.Dependency{of(ready), ended(exited, 0, "signal"), ended(backingOff, 0, "signal"),
			ended(starting, 1, "signal"), ended(ready, 1, "signal")}, []string{
			`level=WARN msg="dependency is down"` + whose + `reason=backing_off detail="killed by SIGKILL (signal)"`,
			`level=INFO msg="dependency ready"` + whose + "restarts=1 elapsed_ms=3000"}},
		"a crash before systemd 254, whose delay has two parts": {[]probes.Dependency{of(ready), ended(backingOff, 0, "signal"),
			ended(starting, 0, "signal"), ended(backingOff, 0, "signal"), ended(ready, 0, "signal")}, []string{
			`level=WARN msg="dependency is down"` + whose + `reason=backing_off detail="killed by SIGKILL (signal)"`,
			`level=INFO msg="dependency ready"` + whose + "restarts=0 elapsed_ms=3000"}},
		"a hang": {[]probes.Dependency{of(ready), of(exited), ended(backingOff, 0, "watchdog")}, []string{
			`level=WARN msg="dependency is down"` + whose +
				`reason=backing_off detail="did not answer for 15s: systemd's watchdog killed it"`}},
		"a start that takes too long": {[]probes.Dependency{of(starting), ended(backingOff, 0, "timeout")}, []string{
			`level=WARN msg="dependency is down"` + whose + `reason=backing_off detail="was not ready within ` +
				`start_timeout, or did not end within stop_timeout: killed by SIGKILL (timeout)"`}},
		"a stop and a start": {[]probes.Dependency{of(ready), of(stopping), of(stopped), of(starting), of(ready)}, []string{
			`level=INFO msg="dependency is down"` + whose + "reason=stopped detail=stopped",
			`level=INFO msg="dependency ready"` + whose + "restarts=0 elapsed_ms=3000"}},
		"the start limit": {[]probes.Dependency{ended(backingOff, 9, "signal"), ended(starting, 10, "signal"),
			ended(probes.DependencyStartLimitHit, 10, "signal")}, []string{
			`level=WARN msg="dependency is down"` + whose + `reason=backing_off detail="killed by SIGKILL (signal)"`,
			`level=ERROR msg="dependency is given up: systemd's start limit is hit"` + whose +
				`reason=start_limit_hit detail="killed by SIGKILL (signal)"`}},
		"a holder": {[]probes.Dependency{of(starting), {Reason: probes.DependencyRefused,
			StatusText: "Not started: port 7233 is held by pid 812"}}, []string{
			`level=ERROR msg="dependency is refused: another process holds what it needs"` + whose +
				`reason=refused detail="port 7233 is held by pid 812"`}},
		"a bad file, when the proxy starts": {[]probes.Dependency{{Reason: probes.DependencyInvalid,
			StatusText: "d.toml:1: unknown key"}}, []string{
			`level=ERROR msg="dependency is down"` + whose + `reason=invalid detail="d.toml:1: unknown key"`}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.lines, lived(c.states...)) })
	}
}
