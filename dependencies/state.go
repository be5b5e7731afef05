package dependencies

import (
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// state is the known state of one dependency.
type state struct {
	published probes.Dependency
	reported  bool // by systemd, at any time
	restarts  restarts.Counter
}

func newState(r Required) *state {
	return &state{published: probes.Dependency{
		Name: r.Name, Unit: units.Dependency(r.Name), Reason: probes.DependencyStarting,
		RequiredBy: r.By, HoldsService: r.HoldsService,
	}}
}

// Once is the state of a dependency of which systemd has reported one state alone. Its restarts are those that systemd
// counts, since the last start or reset by hand.
func Once(r Required, u units.State) probes.Dependency {
	s := newState(r)
	s.set(u)
	s.published.RestartsTotal = uint64(u.NRestarts)
	return s.published
}

// set takes over the state that systemd reports.
func (s *state) set(u units.State) {
	d := &s.published
	s.restarts.Observe(u)
	if end, ok := u.LastEnd(); ok {
		d.LastExit = (*probes.Exit)(&end)
	}
	reason := probes.JudgeDependency(factsOf(u))
	if reason != d.Reason || !s.reported {
		d.Since = u.StateChangedAt
	}
	if !u.HeldBack { // the earlier status has the reason why the unit is down
		d.StatusText = u.StatusText
	}
	d.ActiveState, d.SubState, d.MainPID = u.ActiveState, u.SubState, u.MainPID
	d.Reason, d.Ready = reason, reason == probes.DependencyReady
	d.RestartsTotal, d.NextRestartAt = s.restarts.Total, nil
	if !u.NextRestartAt.IsZero() {
		next := u.NextRestartAt
		d.NextRestartAt = &next
	}
	s.reported = true
}

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
