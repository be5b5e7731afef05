package probes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReadinessOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		snap Snapshot
		want Reason
	}{
		{"no workers", Snapshot{}, NoWorker},
		{"one ready", fleet(Ready), Ready},
		{"one ready of many", fleet(StartLimitHit, Ready, BackingOff), Ready},
		{"service drains", Snapshot{Draining: true, Workers: fleet(Ready).Workers}, Draining},
		{"the reason that ends soonest wins", fleet(StartLimitHit, BackingOff, Starting), Starting},
		{"waiting beats stopped", fleet(Stopped, BackingOff), BackingOff},
		{"exited", fleet(WorkerExited), WorkerExited},
		{"lost", fleet(HandshakeLost), HandshakeLost},
		{"start limit", fleet(StartLimitHit), StartLimitHit},
		{"stopped", fleet(Stopped), Stopped},
		{"the account in use restarts, the other is a standby", fleet(Standby, BackingOff), BackingOff},
		{"standbys alone", fleet(Standby, StartLimitHit, Stopped), Standby},
		{"no models", fleet(NoModels), NoModels},
		{"pending", fleet(HandshakePending), HandshakePending},
		{"workers drain", fleet(Draining, Draining), Draining},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, details := ReadinessOf(tc.snap)
			assert.Equal(t, tc.want, got)
			if got != Ready {
				assert.NotEmpty(t, details)
			}
		})
	}
}

// Accounts matter to readiness, and nothing to liveness.
func TestReadinessOfAccounts(t *testing.T) {
	back := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		workers Snapshot
		out     []Reason
		want    Reason
		details string
	}{
		{"one has quota", fleet(Ready, Ready), []Reason{QuotaExhausted, ""}, Ready, ""},
		{"the one with quota starts", fleet(Ready, Starting), []Reason{QuotaExhausted, ""}, Starting, ""},
		{"none has quota", fleet(Ready, Ready), []Reason{QuotaExhausted, QuotaExhausted}, QuotaExhausted,
			"no account has quota; it is expected back at 2026-03-01T12:00:00Z"},
		{"one may be free again", fleet(Ready, Ready, Ready), []Reason{LoginInvalid, QuotaExhausted, Draining},
			QuotaExhausted, "expected back"},
		{"no login", fleet(Ready, Ready), []Reason{Draining, LoginInvalid}, LoginInvalid,
			"codex-proxy accounts login NAME"},
		{"all paused", fleet(Ready), []Reason{Draining}, Draining, "codex-proxy accounts resume NAME"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.workers.At, tc.workers.QuotaBack = back, back
			for i, out := range tc.out {
				tc.workers.Workers[i].Out = out
			}
			got, details := ReadinessOf(tc.workers)
			assert.Equal(t, tc.want, got)
			assert.Contains(t, details, tc.details)
			live, reason := LivenessOf(tc.workers)
			assert.True(t, live)
			assert.Equal(t, Ready, reason)
			for ready, when := range map[bool]bool{got == Ready: false, got == Ready || got == QuotaExhausted: true} {
				tc.workers.ReadyWhenExhausted = when
				r := NewTracker(back, func(Flip) {}).Observe(tc.workers)
				assert.Equal(t, ready, r.OK)
				assert.Equal(t, got, r.Health.Readiness.Reason)
			}
		})
	}
}

func TestLivenessOf(t *testing.T) {
	for _, tc := range []struct {
		name   string
		snap   Snapshot
		live   bool
		reason Reason
	}{
		{"no workers", Snapshot{}, true, NoWorker},
		{"ready", fleet(Ready), true, Ready},
		{"restarting", fleet(BackingOff), true, BackingOff},
		{"one failed, one restarting", fleet(StartLimitHit, BackingOff), true, BackingOff},
		{"all at the start limit", fleet(StartLimitHit, StartLimitHit), false, StartLimitHit},
		{"stopped by an operator", fleet(Stopped), true, Stopped},
		{"one failed, one standby", fleet(StartLimitHit, Standby), true, Standby},
		{"failed without restarts", finalFailure(), false, WorkerExited},
		{"failed, and started again", failedAs(Starting), true, Starting},
		{"a loop of the service is stuck", stuck(fleet(Ready)), false, Stuck},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live, reason := LivenessOf(tc.snap)
			assert.Equal(t, tc.live, live)
			assert.Equal(t, tc.reason, reason)
		})
	}
}

func TestReadyImpliesLive(t *testing.T) {
	all := append([]Reason{Ready}, soonestFirst...)
	for _, a := range all {
		for _, b := range all {
			s := fleet(a, b)
			reason, _ := ReadinessOf(s)
			live, _ := LivenessOf(s)
			assert.False(t, reason == Ready && !live, "%s and %s", a, b)
			reason, details := ReadinessOf(stuck(s))
			assert.Equal(t, Stuck, reason)
			assert.Equal(t, "the loop does not answer", details)
		}
	}
}

func TestSettled(t *testing.T) {
	assert.True(t, Settled(Snapshot{}), "nothing to wait for")
	assert.True(t, Settled(fleet(Ready, Starting)))
	assert.True(t, Settled(fleet(Starting, Ready)), "whatever their order")
	assert.True(t, Settled(fleet(Standby, Ready)))
	assert.False(t, Settled(fleet(Standby, Stopped)), "the service starts the standby")
	assert.True(t, Settled(fleet(BackingOff, Stopped)))
	assert.True(t, Settled(fleet(StartLimitHit)))
	assert.False(t, Settled(fleet(BackingOff, Starting)))
	assert.False(t, Settled(fleet(HandshakePending)))
	assert.False(t, Settled(fleet(WorkerExited)), "systemd has yet to report the next state")
	assert.True(t, Settled(finalFailure()))
	paused := fleet(Ready, HandshakePending)
	paused.Workers[0].Out = Draining
	assert.False(t, Settled(paused), "the worker that is to serve is about to be ready")
	paused.Workers[1].Reason = BackingOff
	assert.True(t, Settled(paused))
}

// A standby is as it should be: nothing is to be read of it while another worker is ready.
func TestReadinessLeavesOutStandbys(t *testing.T) {
	reason, details := ReadinessOf(fleet(Ready, Standby, BackingOff))
	assert.Equal(t, Ready, reason)
	assert.Equal(t, "worker c: backing_off", details)
	_, details = ReadinessOf(fleet(Standby))
	assert.Equal(t, "every worker is stopped as a standby; the service starts one", details)
}

func TestSentenceNamesTheRemedy(t *testing.T) {
	w := worker("main", StartLimitHit)
	w.LastExit = &Exit{Result: "exit-code"}
	w.StatusText = "Not started: codex is not installed"
	_, details := ReadinessOf(Snapshot{Workers: []Worker{w}})
	assert.Equal(t, "worker main: start_limit_hit: Not started: codex is not installed; "+
		"see journalctl -u codex-worker@main.service, then systemctl reset-failed 'codex-worker@main.service'"+
		" && systemctl start codex.target", details)
}

func TestSentenceOfAnOutOfMemory(t *testing.T) {
	w := worker("main", BackingOff)
	w.LastExit = &Exit{Result: "oom-kill", Code: "killed", Status: "SIGKILL"}
	_, details := ReadinessOf(Snapshot{Workers: []Worker{w}})
	assert.Equal(t, "worker main: backing_off, last exit killed by SIGKILL (oom-kill); "+
		"journalctl -k --grep=oom-kill names what took the memory, and whose limit it met; "+
		"systemctl set-property codex-worker@main.service MemoryMax=SIZE sets another one", details)
}

func TestSentenceLeavesOutAStatusThatIsOver(t *testing.T) {
	w := worker("main", BackingOff)
	w.LastExit = &Exit{Result: "signal", Code: "killed", Status: "SIGKILL"}
	w.StatusText = "Ready: codex 0.169.0"
	_, details := ReadinessOf(Snapshot{Workers: []Worker{w}})
	assert.Equal(t, "worker main: backing_off, last exit killed by SIGKILL (signal)", details)
}

func TestRetryAfter(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(d time.Duration) *time.Time { n := now.Add(d); return &n }
	waiting := func(next *time.Time) Report {
		w := worker("a", BackingOff)
		w.NextRestartAt = next
		return Report{Health: Health{Readiness: Readiness{Reason: BackingOff}}, Workers: []Worker{w}}
	}
	assert.Equal(t, 3*time.Second, RetryAfter(waiting(at(2300*time.Millisecond)), now))
	assert.Equal(t, time.Second, RetryAfter(waiting(at(-time.Second)), now), "overdue")
	assert.Equal(t, time.Minute, RetryAfter(waiting(at(time.Hour)), now))
	assert.Equal(t, time.Second, RetryAfter(Report{Health: Health{Readiness: Readiness{Reason: Starting}}}, now))
	assert.Equal(t, time.Minute, RetryAfter(Report{Health: Health{Readiness: Readiness{Reason: StartLimitHit}}}, now))
	exited := Report{Health: Health{Readiness: Readiness{Reason: WorkerExited}, Liveness: Liveness{Live: true}}}
	assert.Equal(t, time.Second, RetryAfter(exited, now))
	exited.Health.Liveness.Live = false
	assert.Equal(t, time.Minute, RetryAfter(exited, now), "the exit is final")
}

func fleet(reasons ...Reason) Snapshot {
	var s Snapshot
	for i, r := range reasons {
		s.Workers = append(s.Workers, worker(string(rune('a'+i)), r))
	}
	return s
}

func stuck(s Snapshot) Snapshot {
	s.Stuck = "the loop does not answer"
	return s
}

func worker(name string, r Reason) Worker {
	w := Worker{Name: name, Unit: "codex-worker@" + name + ".service", Reason: r, Ready: r == Ready}
	if r == StartLimitHit {
		w.ActiveState, w.SubState = "failed", "failed"
	}
	return w
}

func finalFailure() Snapshot { return failedAs(WorkerExited) }

func failedAs(r Reason) Snapshot {
	w := worker("a", r)
	w.ActiveState, w.SubState = "failed", "failed"
	return Snapshot{Workers: []Worker{w}}
}
