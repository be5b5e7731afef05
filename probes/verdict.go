package probes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ReadinessOf is the service's readiness: one ready worker with an account that runs turns suffices, unless the service
// drains or a dependency holds it. The second value describes every worker that is not ready.
func ReadinessOf(s Snapshot) (Reason, string) {
	reason, details := readinessOf(s)
	isOut := func(w Worker) bool { return w.Out != "" }
	if s.Stuck != "" || s.Draining || s.held() || !slices.ContainsFunc(s.Workers, isOut) {
		return reason, details
	}
	in := s
	in.Workers = slices.DeleteFunc(slices.Clone(s.Workers), isOut)
	if len(in.Workers) > 0 {
		reason, _ = readinessOf(in)
		return reason, details
	}
	reason, words := s.outage()
	return reason, strings.TrimSuffix(words+"; "+details, "; ")
}

// outage is why all accounts are out: the reason that may end soonest.
func (s Snapshot) outage() (Reason, string) {
	has := func(out Reason) bool {
		return slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Out == out })
	}
	switch {
	case has(QuotaExhausted) && !s.QuotaBack.IsZero():
		return QuotaExhausted, "no account has quota; it is expected back at " + s.QuotaBack.UTC().Format(time.RFC3339)
	case has(QuotaExhausted):
		return QuotaExhausted, "no account has quota"
	case has(LoginInvalid):
		return LoginInvalid, "the logins of the accounts are refused; codex-proxy accounts login NAME"
	}
	return Draining, "every account is paused; codex-proxy accounts resume NAME"
}

// readinessOf is ReadinessOf of the workers alone.
func readinessOf(s Snapshot) (Reason, string) {
	switch {
	case s.Stuck != "":
		return Stuck, s.Stuck
	case s.Draining:
		return Draining, "the service is stopping; new requests are refused"
	case len(s.Workers) == 0:
		return NoWorker, "no worker is configured: add one to /etc/codex-proxy/workers"
	}
	present := map[Reason]bool{}
	for _, w := range s.Workers {
		present[w.Reason] = true
	}
	details := s.sentences()
	if s.held() {
		return DependencyNotReady, details
	}
	if present[Ready] {
		return Ready, details
	}
	for _, r := range soonestFirst {
		if !present[r] {
			continue
		}
		if r == Standby && details == "" {
			details = "every worker is stopped as a standby; the service starts one"
		}
		return r, details
	}
	return Starting, details
}

// sentences describe every worker that is not ready, and every dependency that is missed.
func (s Snapshot) sentences() string {
	var unready []string
	held := s.held() // then the dependency explains the workers
	for _, w := range s.Workers {
		if !w.Ready && w.Reason != Standby && (!held || w.Reason != DependencyNotReady) {
			unready = append(unready, w.sentence())
		}
	}
	for _, d := range missed(s.Dependencies, s.Workers) {
		unready = append(unready, d.withoutStatus().Sentence()) // any client may read it
	}
	return strings.Join(unready, "; ")
}

// LivenessOf is false only if the service cannot recover by itself: one of its loops
// is stuck, or systemd has given up on every worker. Dependencies do not matter: a restart of
// the service mends none of them.
func LivenessOf(s Snapshot) (bool, Reason) {
	if s.Stuck != "" {
		return false, Stuck
	}
	if len(s.Workers) == 0 {
		return true, NoWorker
	}
	reason := s.Workers[0].Reason
	for _, w := range s.Workers {
		if !w.failed() {
			r, _ := readinessOf(s) // accounts are no matter: a restart gives them no quota
			return true, r
		}
		if w.Reason == StartLimitHit {
			reason = StartLimitHit
		}
	}
	return false, reason
}

// Settled reports whether the verdict is not about to change: a worker with an account that runs turns is ready, or no
// worker is about to become ready. READY=1 waits for this.
func Settled(s Snapshot) bool {
	settled := true
	for _, w := range s.Workers {
		if w.Reason == Ready && w.Out == "" {
			return true
		}
		settled = settled && !w.changes() && !s.awaitsDependency(w)
	}
	return settled
}

// changes reports whether the reason of a worker that is not ready is about to change. The
// service starts a standby if no other worker is ready.
func (w Worker) changes() bool {
	switch w.Reason {
	case Starting, HandshakePending, HandshakeLost, Standby:
		return true
	case WorkerExited:
		return !w.failed()
	default:
		return false
	}
}

// down reports whether the worker is down for a reason that its exit explains.
func (w Worker) down() bool {
	return w.Reason == WorkerExited || w.Reason == BackingOff || w.Reason == StartLimitHit
}

// sentence describes a worker for operators: its name, its reason, and the remedy.
func (w Worker) sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s: %s", w.Name, w.Reason)
	switch {
	case w.Fault != "":
		fmt.Fprintf(&b, ": %s; its watchdog restarts it", w.Fault)
	case !w.down():
	case w.StatusText != "" && (w.LastExit == nil || w.LastExit.Code == ""):
		fmt.Fprintf(&b, ": %s", w.StatusText) // why it did not start
	case w.LastExit != nil:
		fmt.Fprintf(&b, ", last exit %s", w.LastExit)
	}
	if w.down() && w.LastExit.OutOfMemory() {
		fmt.Fprintf(&b, "; %s", OutOfMemoryRemedy(w.Unit))
	}
	switch w.Reason {
	case DependencyNotReady:
		fmt.Fprintf(&b, ": it requires %s", strings.Join(w.Unmet, ", "))
	case StartLimitHit, WorkerExited:
		if w.failed() {
			const remedy = "; see journalctl -u %[1]s, " +
				"then systemctl reset-failed '%[1]s' && systemctl start codex.target"
			fmt.Fprintf(&b, remedy, w.Unit)
		}
	case Stopped:
		fmt.Fprintf(&b, "; systemctl start %s", w.Unit)
	case Draining:
		fmt.Fprintf(&b, ", turns in flight: %d", w.Inflight)
		if w.Drained {
			fmt.Fprintf(&b, "; codex-proxy undrain %s", w.Name)
		}
	}
	return b.String()
}

// String describes an exit in systemd's terms; a nil Exit is unknown.
func (e *Exit) String() string {
	switch {
	case e == nil:
		return "unknown"
	case e.Code == "":
		return fmt.Sprintf("before it ran (%s)", e.Result)
	case e.Code == "exited":
		return fmt.Sprintf("status %s (%s)", e.Status, e.Result)
	default:
		return fmt.Sprintf("%s by %s (%s)", e.Code, e.Status, e.Result)
	}
}
