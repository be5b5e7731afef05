package probes

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestJudgeRemote(t *testing.T) {
	failed := func(status int32) DependencyFacts {
		return DependencyFacts{ActiveState: "failed", SubState: "failed", Result: "exit-code", ExitStatus: status}
	}
	for _, tc := range []struct {
		facts       DependencyFacts
		want        RemoteReason
		down, final bool
	}{
		{DependencyFacts{ActiveState: "active", SubState: "running"}, RemoteReady, false, false},
		{DependencyFacts{ActiveState: "inactive", SubState: "dead"}, RemoteAsleep, false, false},
		{DependencyFacts{ActiveState: "inactive", SubState: "dead", JobPending: true}, RemoteStarting, true, false},
		{DependencyFacts{ActiveState: "activating", SubState: "start"}, RemoteStarting, true, false},
		{DependencyFacts{ActiveState: "activating", SubState: "auto-restart"}, RemoteBackingOff, true, false},
		{DependencyFacts{ActiveState: "failed", SubState: "failed-before-auto-restart"}, RemoteExited, true, false},
		{DependencyFacts{ActiveState: "deactivating", SubState: "stop-sigterm", JobPending: true}, RemoteStopping, false, false},
		{failed(78), RemoteInvalid, true, true},
		{failed(75), RemoteFailed, true, true},
		{failed(1), RemoteFailed, true, true},
		{DependencyFacts{ActiveState: "failed", SubState: "failed", StartLimited: true}, RemoteStartLimitHit, true, true},
	} {
		got := JudgeRemote(tc.facts)
		assert.Equal(t, tc.want, got)
		assert.Contains(t, RemoteReasons, got)
		assert.Equal(t, []bool{tc.down, tc.final}, []bool{got.Down(), got.Final()}, got)
	}
}

func TestSentenceOfRemote(t *testing.T) {
	killed := &Exit{Result: "signal", Code: "killed", Status: "SIGKILL"}
	for _, tc := range []struct {
		reason RemoteReason
		status string
		want   string
	}{
		{RemoteReady, "", ""}, {RemoteAsleep, "", ""}, {RemoteStarting, "", ""}, {RemoteStopping, "", ""},
		{RemoteBackingOff, "Ready", "remote build: backing_off, last exit killed by SIGKILL (signal); systemd restarts it; " +
			"see journalctl -u codex-remote@build.service"},
		{RemoteInvalid, "Not started: build.toml:3: unknown key", "remote build: invalid: build.toml:3: unknown key; mend the " +
			"file until codex-proxy remotes check build reports no fault, then systemctl daemon-reload && systemctl " +
			"reset-failed codex-remote@build.service"},
		{RemoteStartLimitHit, "", "remote build: start_limit_hit, last exit killed by SIGKILL (signal); see journalctl -u " +
			"codex-remote@build.service, then systemctl reset-failed codex-remote@build.service; an attach starts it"},
	} {
		r := Remote{Name: "build", Unit: "codex-remote@build.service", Reason: tc.reason, StatusText: tc.status, LastExit: killed}
		assert.Equal(t, tc.want, r.Sentence())
	}
}

// Any client of the network may read the probes: remotes are not their business.
func TestProbesHaveNoRemotes(t *testing.T) {
	report := func() Report {
		return Report{Remotes: []Remote{{Name: "private-name"}}, Brokers: []Broker{{Name: "private-name"}}}
	}
	for _, h := range []http.Handler{ReadyHandler(report), LiveHandler(report)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		assert.NotContains(t, w.Body.String(), "private-name")
	}
}

func TestAtRest(t *testing.T) {
	at := time.Unix(1, 0)
	u := &RemoteUse{At: at, Owners: 1, Viewers: 2, Turns: 3, TurnSince: at, AloneSince: at, Account: "a", Continued: 4,
		GivenUp: 5, Switches: 6}
	assert.Equal(t, &RemoteUse{At: at, Account: "a", Continued: 4, GivenUp: 5, Switches: 6}, u.AtRest())
	assert.Nil(t, (*RemoteUse)(nil).AtRest())
}
