package probes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A kill of the worker, as the socket and systemd report it one after the other.
func TestTrackerFollowsARestart(t *testing.T) {
	start := time.Unix(1000, 0)
	var flips []Flip
	tr := NewTracker(start, func(f Flip) { flips = append(flips, f) })
	at := func(ms int, r Reason) Report {
		s := fleet(r)
		s.At = start.Add(time.Duration(ms) * time.Millisecond)
		return tr.Observe(s)
	}

	at(0, Starting)
	at(200, HandshakePending)
	ready := at(250, Ready)
	assert.True(t, ready.OK)
	assert.Equal(t, start.Add(250*time.Millisecond), ready.Health.Readiness.Since)

	lost := at(1250, HandshakeLost)
	assert.False(t, lost.OK)
	assert.True(t, lost.Health.Liveness.Live)
	at(1255, WorkerExited)
	waiting := at(1256, BackingOff)
	assert.Equal(t, start.Add(1250*time.Millisecond), waiting.Health.Readiness.Since,
		"not ready since the first reason")
	assert.Equal(t, start.Add(1256*time.Millisecond), waiting.Health.Readiness.LastChangeAt)
	at(1500, Starting)
	at(1700, Ready)

	require.Len(t, flips, 3)
	assert.Equal(t, []bool{true, false, true}, []bool{flips[0].Ready, flips[1].Ready, flips[2].Ready})
	assert.Equal(t, []Reason{Ready, HandshakeLost, Ready}, []Reason{flips[0].Reason, flips[1].Reason, flips[2].Reason})
	assert.Equal(t, 450*time.Millisecond, flips[2].Elapsed)
}

func TestTrackerIgnoresAnOlderSnapshot(t *testing.T) {
	start := time.Unix(1000, 0)
	flips := 0
	tr := NewTracker(start, func(Flip) { flips++ })
	now, before := fleet(Ready), fleet(HandshakeLost)
	now.At, before.At = start.Add(2*time.Second), start.Add(time.Second)
	tr.Observe(now)
	r := tr.Observe(before)
	assert.True(t, r.Health.Readiness.Ready)
	assert.Equal(t, 1, flips)
}

func TestHandlers(t *testing.T) {
	tr := NewTracker(time.Unix(1000, 0), func(Flip) {})
	snap := fleet(StartLimitHit)
	snap.At = time.Unix(1001, 0)
	report := func() Report { return tr.Observe(snap) }

	for _, h := range []http.Handler{ReadyHandler(report), LiveHandler(report)} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
		assert.Equal(t, "60", rec.Header().Get("Retry-After"))
	}

	snap = fleet(BackingOff)
	snap.At = time.Unix(1002, 0)
	rec := httptest.NewRecorder()
	LiveHandler(report).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/livez", nil))
	assert.Equal(t, http.StatusOK, rec.Code, "a restart is not a death")
}

// The endpoints are open to any client: the status of a dependency may have command lines of other processes.
func TestHandlersLeaveOutStatuses(t *testing.T) {
	const secret = "server --password=x"
	d := dependency(DependencyRefused)
	d.HoldsService, d.StatusText = true, "port 1 is held by pid 2 ("+secret+")"
	snap := fleet(Ready)
	snap.At, snap.Dependencies = time.Unix(1001, 0), []Dependency{d}
	report := NewTracker(time.Unix(1000, 0), func(Flip) {}).Observe(snap)
	for _, h := range []http.Handler{
		ReadyHandler(func() Report { return report }), LiveHandler(func() Report { return report }),
	} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Contains(t, rec.Body.String(), `"reason":"refused"`)
		assert.Contains(t, rec.Body.String(), "systemctl status codex-dependency@db.service` names")
		assert.NotContains(t, rec.Body.String(), secret)
	}
	assert.Contains(t, report.Dependencies[0].StatusText, secret, "the operator's report has it")
}

// The published names: fields may be added, never renamed.
func TestReportJSON(t *testing.T) {
	tr := NewTracker(time.Unix(1000, 0).UTC(), func(Flip) {})
	w := worker("main", Ready)
	w.Handshake = &Handshake{At: time.Unix(1000, 0).UTC(), UserAgent: "codex/1", Models: []string{"m"}}
	w.LastExit = &Exit{Result: "signal", Code: "killed", Status: "SIGKILL", At: time.Unix(999, 0).UTC()}
	queue := Queue{Depth: 2, Limit: 64, OldestWaitMS: 1.5}
	got, err := json.Marshal(tr.Observe(Snapshot{At: time.Unix(1001, 0).UTC(), Workers: []Worker{w}, Queue: queue}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"ok":true,
	 "health":{"readiness":{"ready":true,"reason":"ready","since":"1970-01-01T00:16:41Z",
	             "last_change_at":"1970-01-01T00:16:41Z","details":""},
	           "liveness":{"live":true,"reason":"ready","since":"1970-01-01T00:16:40Z"}},
	 "workers":[{"name":"main","unit":"codex-worker@main.service","active_state":"","sub_state":"","main_pid":0,
	   "ready":true,"reason":"ready",
	   "handshake":{"at":"1970-01-01T00:16:40Z","user_agent":"codex/1","models":["m"]},
	   "restarts_total":0,"oom_kills_total":0,"consecutive_failures":0,"next_restart_at":null,
	   "last_exit":{"result":"signal","code":"killed","status":"SIGKILL","at":"1970-01-01T00:16:39Z"},
	   "last_ready_at":null,"startup_latency_ms":0,"inflight":0,"drained":false,"transitions":null}],
	 "queue":{"depth":2,"limit":64,"oldest_wait_ms":1.5}}`, string(got))
}
