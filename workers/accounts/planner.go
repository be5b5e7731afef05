package accounts

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// surplusBound is how long a worker that was never needed waits for a reading of its
	// account before it is stopped.
	surplusBound = 30 * time.Second
	// leastRun is how long a worker runs at least. systemd starts a unit 15 times in 180
	// seconds at most (StartLimitBurst=); a request could start it again after each stop.
	leastRun = 15 * time.Second
	// displacement is how much more an account must have left than one with a started
	// worker to take the place of that one while the rotation is Even.
	displacement = 0.1
)

// Phase is how far the worker of an account is started.
type Phase string

// The phases of a worker.
const (
	Cold    Phase = "cold"    // its unit is stopped, and a connection starts it
	Coming  Phase = "coming"  // it starts
	Warm    Phase = "warm"    // it takes turns
	Going   Phase = "going"   // it is being stopped
	Failing Phase = "failing" // systemd restarts it or has given it up, or it has no models
	Held    Phase = "held"    // an operator has drained or stopped it, or its state is not known
)

// up reports whether the worker takes turns or may do so soon.
func (p Phase) up() bool { return p == Warm || p == Coming }

// Unit is the worker of an account as the plan sees it. A zero time means never.
type Unit struct {
	Name  string
	Phase Phase
	Turns int // in flight, in all processes
	// UsedAt is when its last turn ended, ReadyAt when it last became ready.
	UsedAt, ReadyAt time.Time
	// NeededAt is when a plan last had a need for it, AskedAt when an operator switched to
	// the account or resumed it, WantedAt when a request last waited for its start.
	NeededAt, AskedAt, WantedAt time.Time
}

// Step is the decision of the plan for one account.
type Step struct {
	Name string
	// Need means that the worker is to run: it is started if it is stopped.
	Need bool
	// Stop means that the worker is to be stopped now.
	Stop bool
	// Next means that the account serves when the one in use is low.
	Next bool
	// Why is the reason in words, for operators.
	Why string
	// StopAt is when a worker without a need is stopped; zero if it is needed or stopped.
	StopAt time.Time
}

// Plan decides which workers run: a step for each view, in the order of the views. It is a
// pure function. With p.Warm = 0 every worker is as systemd and operators have it.
func Plan(p Policy, views []View, units []Unit, now time.Time) []Step {
	pl := planner{policy: p, now: now, steps: make([]Step, len(views))}
	for i, v := range views {
		u := Unit{Phase: Held}
		if at := slices.IndexFunc(units, func(u Unit) bool { return u.Name == v.Name }); at >= 0 {
			u = units[at]
		}
		pl.members = append(pl.members, member{i, v, u})
		pl.steps[i].Name = v.Name
	}
	pl.rank()
	for _, m := range pl.members {
		pl.decide(m)
	}
	if !pl.served() {
		for i := range pl.steps { // the surplus serves until a worker that is needed does
			pl.steps[i].Stop = false
		}
	}
	return pl.steps
}

// served reports whether a worker that is needed takes turns.
func (pl *planner) served() bool {
	return slices.ContainsFunc(pl.members, func(m member) bool { return pl.steps[m.at].Need && m.unit.Phase == Warm })
}

// member is an account with its worker.
type member struct {
	at   int // in the order of the views
	view View
	unit Unit
}

// planner is one run of Plan.
type planner struct {
	policy  Policy
	now     time.Time
	members []member
	steps   []Step
}

// rank marks the accounts that the rotation itself needs: those that serve, and their
// successor once one of them ends soon.
func (pl *planner) rank() {
	line := pl.line()
	warm := pl.policy.Warm
	if warm <= 0 {
		warm = len(line)
	}
	serving := min(warm, len(line))
	ending := slices.ContainsFunc(line[:serving], func(m member) bool { return pl.ending(m.view) })
	for n, m := range line {
		s := &pl.steps[m.at]
		switch {
		case n < serving && m.view.InUse && pl.policy.Rotation == Ordered:
			pl.need(m, "in use")
		case n < serving && pl.policy.Rotation == Ordered:
			pl.need(m, "kept warm")
		case n < serving:
			pl.need(m, "among those with the most left")
		case n == serving && ending:
			pl.need(m, "next: the account in use is nearly used up")
		}
		s.Next = pl.isNext(n, line)
	}
}

// isNext: the successor is the first in line behind the account in use.
func (pl *planner) isNext(n int, line []member) bool {
	return pl.policy.Rotation == Ordered && n == 1 && line[0].view.InUse && !sameQuota(line[0].view, line[1].view)
}

// waitList has the accounts that may serve, the first choice first. Accounts with a worker that fails
// are last: the next candidate is started in place of each.
func (pl *planner) line() []member {
	line := slices.DeleteFunc(slices.Clone(pl.members), func(m member) bool {
		return m.view.Paused || !m.view.State.Serves() || m.unit.Phase == Held
	})
	start := max(0, slices.IndexFunc(pl.members, func(m member) bool { return m.view.InUse }))
	inUse := View{}
	if len(pl.members) > 0 {
		inUse = pl.members[start].view
	}
	slices.SortStableFunc(line, func(a, b member) int {
		return cmp.Or(
			cmp.Compare(fails(a), fails(b)),
			pl.byRotation(a, b, start, inUse),
			cmp.Compare(pl.after(a, start), pl.after(b, start)),
		)
	})
	return line
}

func (pl *planner) byRotation(a, b member, start int, inUse View) int {
	if pl.policy.Rotation == Ordered {
		return cmp.Or(
			cmp.Compare(rankOf(a, inUse), rankOf(b, inUse)),
			cmp.Compare(pl.after(a, start), pl.after(b, start)),
		)
	}
	return cmp.Or(cmp.Compare(ranks[a.view.State], ranks[b.view.State]), cmp.Compare(pl.weight(b), pl.weight(a)))
}

// ranks order the states by how gladly an account takes turns.
var ranks = map[State]int{Available: 1, Unknown: 2, Low: 3}

// rankOf is the rank of the state; the account in use is before all, and accounts with its
// quota are after all.
func rankOf(m member, inUse View) int {
	switch {
	case m.view.InUse:
		return 0
	case sameQuota(m.view, inUse):
		return len(ranks) + 1
	}
	return ranks[m.view.State]
}

func sameQuota(a, b View) bool { return a.QuotaID != "" && a.QuotaID == b.QuotaID }

// after is the place of an account in the order that begins with the one in use.
func (pl *planner) after(m member, start int) int {
	return (m.at - start + len(pl.members)) % len(pl.members)
}

// weight is the quota that an account has left; a worker that is up stays so for a small difference. A
// stopped one cannot be read: a window that has ended meanwhile counts as free.
func (pl *planner) weight(m member) float64 {
	if m.unit.Phase.up() {
		return m.view.Left + displacement
	}
	left := 1.0
	for _, w := range m.view.Quota.Windows {
		if !w.Ended(pl.now) {
			left = min(left, w.Left())
		}
	}
	return left
}

func fails(m member) int {
	if m.unit.Phase == Failing || m.unit.Phase == Going {
		return 1
	}
	return 0
}

// ending reports whether the account is to have its successor started.
func (pl *planner) ending(v View) bool {
	if v.State != Available && v.State != Unknown {
		return true
	}
	return slices.ContainsFunc(v.Quota.Windows, func(w Window) bool {
		mark, ok := pl.policy.PrewarmAt[w.Name]
		return ok && w.Left() <= mark
	})
}

func (pl *planner) need(m member, why string) {
	s := &pl.steps[m.at]
	s.Need, s.Why = true, why
}

// decide completes the step of an account.
func (pl *planner) decide(m member) {
	s, u, v := &pl.steps[m.at], m.unit, m.view
	switch idle := pl.policy.IdleStop; {
	case pl.policy.Warm <= 0 || !pl.policy.On():
		*s = Step{Name: s.Name, Next: s.Next, Why: "runs"}
	case u.Phase == Held:
		*s = Step{Name: s.Name, Why: "left to the operator"}
	case s.Need:
	case u.Turns > 0:
		pl.need(m, "turns in flight")
	case v.State == Exhausted && !v.Paused:
		pl.need(m, "exhausted: it is read each minute")
	case u.WantedAt.After(u.UsedAt) && !v.Paused:
		pl.need(m, "a request waits for it")
	case pl.within(u.AskedAt, idle):
		pl.need(m, "an operator has chosen it")
	case pl.stale(v):
		pl.need(m, "to be read: a limit has been reset")
	case u.Phase == Cold:
		s.Why = "standby"
	case u.Phase == Failing:
		s.Why = "its worker fails"
	case u.Phase == Going:
		s.Why = "it is being stopped"
	default:
		pl.idle(m)
	}
}

// stale reports whether the reset of a low account's window has passed unread. Only a
// started worker can be read.
func (pl *planner) stale(v View) bool {
	return v.State == Low && !v.Paused && slices.ContainsFunc(v.Quota.Windows, func(w Window) bool {
		return w.Left() <= pl.policy.RotateAt && !w.ResetsAt.IsZero() && w.ResetsAt.Before(pl.now) &&
			v.Quota.At.Before(w.ResetsAt)
	})
}

func (pl *planner) within(at time.Time, span time.Duration) bool {
	return !at.IsZero() && pl.now.Before(at.Add(span))
}

// idle is for a worker that runs without a need. One that was never needed is stopped as
// soon as its account was read, as after the start of the machine.
func (pl *planner) idle(m member) {
	s, u := &pl.steps[m.at], m.unit
	last := later(u.UsedAt, u.NeededAt)
	s.StopAt = last.Add(pl.policy.IdleStop)
	if last.IsZero() {
		s.StopAt = u.ReadyAt.Add(surplusBound)
		if readSince(m.view, u.ReadyAt) {
			s.StopAt = pl.now
		}
	}
	s.StopAt = later(s.StopAt, u.ReadyAt.Add(leastRun))
	s.Stop = u.Phase == Warm && !pl.now.Before(s.StopAt)
	s.Why = fmt.Sprintf("idle: it is stopped at %s", s.StopAt.Format(time.TimeOnly))
}

// readSince reports whether all that can be read of the account was read after at.
func readSince(v View, at time.Time) bool {
	if v.Login.Type == "chatgpt" {
		return v.Quota.At.After(at)
	}
	return v.Login.At.After(at)
}
