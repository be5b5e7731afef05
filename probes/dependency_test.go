package probes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestJudgeDependency(t *testing.T) {
	facts := func(active, sub string) DependencyFacts {
		return DependencyFacts{ActiveState: active, SubState: sub, Result: "success"}
	}
	failed := func(result string, status int32) DependencyFacts {
		return DependencyFacts{ActiveState: "failed", SubState: "failed", Result: result, ExitStatus: status}
	}
	for _, tc := range []struct {
		name  string
		facts DependencyFacts
		want  DependencyReason
	}{
		{"not reported yet", DependencyFacts{}, DependencyStarting},
		{"active", facts("active", "running"), DependencyReady},
		{"reloading", facts("reloading", "reload"), DependencyReady},
		{"starting", facts("activating", "start"), DependencyStarting},
		{"waiting for its restart", facts("activating", "auto-restart"), DependencyBackingOff},
		{"restart queued", facts("activating", "auto-restart-queued"), DependencyBackingOff},
		{"waiting itself", DependencyFacts{ActiveState: "activating", SubState: "start-pre", HeldBack: true},
			DependencyBackingOff},
		{"exited", facts("failed", "failed-before-auto-restart"), DependencyExited},
		{"exited cleanly", facts("inactive", "dead-before-auto-restart"), DependencyExited},
		{"its refused start is cleaned up", DependencyFacts{ActiveState: "deactivating", SubState: "stop-post",
			Result: "exit-code", ExitStatus: 75}, DependencyRefused},
		{"its start with an invalid file is cleaned up", DependencyFacts{ActiveState: "deactivating",
			SubState: "stop-post", Result: "exit-code", ExitStatus: 78}, DependencyInvalid},
		{"it has crashed, and is cleaned up", DependencyFacts{ActiveState: "deactivating", SubState: "stop-post",
			Result: "exit-code", ExitStatus: 1}, DependencyExited},
		{"the watchdog ends it", DependencyFacts{ActiveState: "deactivating", SubState: "stop-watchdog",
			Result: "watchdog"}, DependencyExited},
		{"an operator stops it", DependencyFacts{ActiveState: "deactivating", SubState: "stop-sigterm",
			Result: "success", JobPending: true}, DependencyStopping},
		{"stopped", facts("inactive", "dead"), DependencyStopped},
		{"start queued", DependencyFacts{ActiveState: "inactive", SubState: "dead", JobPending: true}, DependencyStarting},
		{"restart after a failed stop", DependencyFacts{ActiveState: "failed", SubState: "failed", JobPending: true},
			DependencyStarting},
		{"another process holds it", failed("exit-code", 75), DependencyRefused},
		{"killed by signal 75", failed("signal", 75), DependencyFailed},
		{"its file is wrong", failed("exit-code", 78), DependencyInvalid},
		{"start limit", DependencyFacts{ActiveState: "failed", SubState: "failed", Result: "exit-code",
			ExitStatus: 1, StartLimited: true}, DependencyStartLimitHit},
		{"failed", failed("timeout", 0), DependencyFailed},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, JudgeDependency(tc.facts)) })
	}
}

// The sentence names the dependency, its reason, what is known of the cause, and the command.
func TestSentenceOfDependency(t *testing.T) {
	killed := &Exit{Result: "signal", Code: "killed", Status: "SIGKILL"}
	for _, tc := range []struct {
		reason DependencyReason
		status string
		exit   *Exit
		want   string
	}{
		{DependencyReady, "", nil, ""},
		{DependencyStarting, "Waiting: connection refused", killed,
			"dependency db: starting: Waiting: connection refused; see systemctl status codex-dependency@db.service"},
		{DependencyBackingOff, "Ready", killed, "dependency db: backing_off, last exit killed by SIGKILL (signal); " +
			"systemd restarts it; see journalctl -u codex-dependency@db.service"},
		{DependencyExited, "", killed, "dependency db: exited, last exit killed by SIGKILL (signal); " +
			"systemd restarts it; see journalctl -u codex-dependency@db.service"},
		{DependencyStopping, "Stopping", nil, "dependency db: stopping: Stopping"},
		{DependencyStopped, "Ready", killed, "dependency db: stopped; systemctl start codex-dependency@db.service"},
		{DependencyRefused, "port 5432 is held by pid 812", &Exit{Code: "exited", Status: "75"},
			"dependency db: refused: port 5432 is held by pid 812; " +
				"systemctl start codex-dependency@db.service"},
		{DependencyRefused, "", &Exit{Code: "exited", Status: "75"}, "dependency db: refused; " +
			"end the process that `systemctl status codex-dependency@db.service` names, " +
			"then systemctl start codex-dependency@db.service"},
		{DependencyInvalid, "db.toml:3: unknown key", nil, "dependency db: invalid: db.toml:3: unknown key; " +
			"mend the file until codex-proxy dependencies check db reports no fault, then " +
			"systemctl daemon-reload && systemctl restart codex-dependency@db.service"},
		{DependencyStartLimitHit, "Ready", killed, "dependency db: start_limit_hit, last exit killed by SIGKILL (signal); " +
			"see journalctl -u codex-dependency@db.service, then systemctl reset-failed codex-dependency@db.service " +
			"&& systemctl start codex-dependency@db.service"},
		{DependencyFailed, "Waiting", &Exit{Result: "timeout"}, "dependency db: failed: Waiting; " +
			"see journalctl -u codex-dependency@db.service, then systemctl reset-failed codex-dependency@db.service " +
			"&& systemctl start codex-dependency@db.service"},
		{DependencyFailed, "", &Exit{Result: "timeout"}, "dependency db: failed, last exit before it ran (timeout); " +
			"see journalctl -u codex-dependency@db.service, then systemctl reset-failed codex-dependency@db.service " +
			"&& systemctl start codex-dependency@db.service"},
	} {
		t.Run(string(tc.reason), func(t *testing.T) {
			d := dependency(tc.reason)
			d.StatusText, d.LastExit = tc.status, tc.exit
			assert.Equal(t, tc.want, d.Sentence())
		})
	}
}

func TestJudgeWorkerWithDependency(t *testing.T) {
	connected := with(unit("active", "running"), Facts{Handshake: true, Models: 1})
	unmet := func(f Facts, reason DependencyReason, bound bool) Facts {
		f.Unmet, f.Bound = reason, bound
		return f
	}
	for _, tc := range []struct {
		name        string
		facts       Facts
		want        Reason
		recoverable bool
	}{
		{"ready", connected, Ready, true},
		{"it restarts", unmet(connected, DependencyBackingOff, false), DependencyNotReady, true},
		{"it is stopped", unmet(connected, DependencyStopped, false), DependencyNotReady, false},
		{"drained", unmet(drained(connected), DependencyStopped, false), Draining, false},
		{"not connected", unmet(unit("active", "running"), DependencyStopped, false), HandshakePending, true},
		{"the worker is stopped", unmet(unit("inactive", "dead"), DependencyStopped, false), Stopped, false},
		{"stopped with it", unmet(unit("inactive", "dead"), DependencyBackingOff, true), DependencyNotReady, true},
		{"a standby, stopped with it", unmet(standby(unit("inactive", "dead")), DependencyFailed, true),
			DependencyNotReady, false},
		{"started with it", unmet(queued(unit("inactive", "dead")), DependencyStarting, true), Starting, true},
		{"no bus", Facts{NoBus: true, Handshake: true, Models: 1, Bound: true}, Ready, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.facts.Drained = tc.facts.Draining
			assert.Equal(t, tc.want, Judge(tc.facts))
			assert.Equal(t, tc.recoverable, Recoverable(tc.facts))
		})
	}
}

func TestReadinessOfDependencies(t *testing.T) {
	service := dependency(DependencyBackingOff)
	service.HoldsService = true
	other := dependency(DependencyStopped)
	const sentence = "dependency db: backing_off; systemd restarts it; see journalctl -u codex-dependency@db.service"
	for _, tc := range []struct {
		name    string
		snap    Snapshot
		want    Reason
		details string
	}{
		{"not required", withDependency(fleet(Ready), other), Ready, ""},
		{"the service requires it", withDependency(fleet(DependencyNotReady), service), DependencyNotReady, sentence},
		{"workers are down, too", withDependency(fleet(BackingOff), service), DependencyNotReady,
			"worker a: backing_off; " + sentence},
		{"the only worker requires it", withDependency(fleet(DependencyNotReady), other), DependencyNotReady,
			"worker a: dependency_not_ready: it requires db; " +
				"dependency db: stopped; systemctl start codex-dependency@db.service"},
		{"another worker serves", withDependency(fleet(Ready, DependencyNotReady), other), Ready,
			"worker b: dependency_not_ready: it requires db; " +
				"dependency db: stopped; systemctl start codex-dependency@db.service"},
		{"the service stops", Snapshot{Draining: true, Workers: fleet(Ready).Workers, Dependencies: []Dependency{service}},
			Draining, "the service is stopping; new requests are refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, details := ReadinessOf(tc.snap)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.details, details)
			live, _ := LivenessOf(tc.snap)
			assert.True(t, live, "a restart of the service mends no dependency")
		})
	}
}

// ready_when_exhausted makes no service ready that a dependency holds.
func TestDependencyBeforeQuota(t *testing.T) {
	d := dependency(DependencyFailed)
	d.HoldsService = true
	s := withDependency(fleet(DependencyNotReady), d)
	s.At, s.Workers[0].Out, s.ReadyWhenExhausted = time.Unix(1, 0), QuotaExhausted, true
	r := NewTracker(time.Unix(0, 0), func(Flip) {}).Observe(s)
	assert.False(t, r.OK)
	assert.Equal(t, DependencyNotReady, r.Health.Readiness.Reason)
	assert.Equal(t, []Dependency{d}, r.Dependencies)
}

func TestSettledWithDependency(t *testing.T) {
	assert.False(t, Settled(withDependency(fleet(DependencyNotReady), dependency(DependencyStarting))))
	assert.True(t, Settled(withDependency(fleet(DependencyNotReady), dependency(DependencyBackingOff))))
	assert.True(t, Settled(withDependency(fleet(Ready, DependencyNotReady), dependency(DependencyStarting))))
}

func TestRetryAfterDependency(t *testing.T) {
	now := time.Unix(1000, 0)
	next := now.Add(4 * time.Second)
	waits := dependency(DependencyBackingOff)
	waits.NextRestartAt, waits.HoldsService = &next, true
	retry := func(dependencies ...Dependency) time.Duration {
		return RetryAfter(Report{Health: Health{Readiness: Readiness{Reason: DependencyNotReady}},
			Dependencies: dependencies}, now)
	}
	assert.Equal(t, 4*time.Second, retry(waits))
	stopped := dependency(DependencyStopped)
	assert.Equal(t, 4*time.Second, retry(waits, stopped), "nothing requires the stopped one")
	stopped.HoldsService = true
	assert.Equal(t, time.Minute, retry(waits, stopped))
	starting := dependency(DependencyStarting)
	starting.HoldsService = true
	assert.Equal(t, time.Second, retry(starting))
}

func dependency(r DependencyReason) Dependency {
	return Dependency{Name: "db", Unit: "codex-dependency@db.service", Reason: r, Ready: r == DependencyReady}
}

// withDependency lets the workers that a dependency keeps from being ready require this one.
func withDependency(s Snapshot, d Dependency) Snapshot {
	s.Dependencies = []Dependency{d}
	for i := range s.Workers {
		if s.Workers[i].Reason == DependencyNotReady {
			s.Workers[i].Unmet = []string{d.Name}
		}
	}
	return s
}
