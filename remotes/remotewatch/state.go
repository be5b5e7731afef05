package remotewatch

import (
	"reflect"
	"time"

	"codex-proxy/probes"
	"codex-proxy/remotes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// state is the known state of one remote.
type state struct {
	published probes.Remote
	reported  bool // by systemd
	restarts  restarts.Counter
	counted   time.Time // NotReady is counted up to then
	restsAt   time.Time // when the remote stops if nobody comes; zero: not soon
	mute      bool      // it was logged that the remote does not answer
}

func newState(name string, before SavedRemote) *state {
	s := &state{published: probes.Remote{
		Name: name, Unit: units.Remote(name), Reason: probes.RemoteStarting, NotReady: before.NotReady,
		LastExit: before.LastExit, RestartsTotal: before.Restarts, Use: before.Use,
	}}
	s.restarts.Total = before.Restarts
	return s
}

// set takes over the state that systemd reports.
func (s *state) set(u units.State, now time.Time) (changed bool) {
	r := &s.published
	s.count(now)
	s.restarts.Observe(u)
	if end, ok := u.LastEnd(); ok {
		r.LastExit = (*probes.Exit)(&end)
	}
	reason := Judge(u)
	if changed = reason != r.Reason || !s.reported; changed {
		r.Since = u.StateChangedAt
	}
	r.ActiveState, r.SubState, r.StatusText = u.ActiveState, u.SubState, u.StatusText
	r.Reason, r.Ready, r.RestartsTotal = reason, reason == probes.RemoteReady, s.restarts.Total
	r.NextRestartAt = nil
	if !u.NextRestartAt.IsZero() {
		next := u.NextRestartAt
		r.NextRestartAt = &next
	}
	if !r.Ready {
		r.Use, s.restsAt = r.Use.AtRest(), time.Time{}
	}
	s.reported = true
	return changed
}

// count adds the time since the last count to that in which the remote was down.
func (s *state) count(now time.Time) {
	if s.reported && s.published.Reason.Down() {
		s.published.NotReady += max(0, now.Sub(s.counted))
	}
	s.counted = now
}

// Judge returns the one reason that holds for a remote by the state of its unit.
func Judge(u units.State) probes.RemoteReason { return probes.JudgeRemote(factsOf(u)) }

func factsOf(u units.State) probes.DependencyFacts {
	f := probes.DependencyFacts{
		ActiveState: u.ActiveState, SubState: u.SubState, Result: u.Result,
		HeldBack: u.HeldBack, JobPending: u.JobPending, StartLimited: u.StartLimited(),
	}
	if e, ok := u.LastExit(); ok && e.Code == "exited" {
		f.ExitStatus = u.ExecMainStatus
	}
	return f
}

// answered takes over the answer of the main process, and reports whether it differs from the one before.
func (s *state) answered(st remotes.Status, now time.Time) (changed bool) {
	use := &probes.RemoteUse{At: now, Account: st.Account, Continued: st.Continued, GivenUp: st.GivenUp,
		Switches: st.Switches, Commands: st.Commands, Unknown: st.Unknown,
		Ended: st.Ends.Turns, Failed: st.Ends.Faults, Fault: st.Ends.Fault}
	for _, c := range st.Attached {
		if c.Viewer {
			use.Viewers++
		} else {
			use.Owners++
		}
	}
	for _, t := range st.Turns {
		if !t.Cut {
			use.Turns++
			use.TurnSince = earlier(use.TurnSince, t.Since)
		}
		use.AloneSince = earlier(use.AloneSince, t.AloneSince)
	}
	changed = !sameUse(use, s.published.Use)
	s.published.Use, s.restsAt, s.mute = use, st.RestsAt, false
	return changed
}

// earlier is the earlier one of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sameUse compares two answers at different times.
func sameUse(a, b *probes.RemoteUse) bool {
	if b == nil {
		return false
	}
	later := *b
	later.At = a.At
	return reflect.DeepEqual(*a, later)
}
