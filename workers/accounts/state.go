package accounts

import "time"

// State is the meaning of an account's quota for the choice of a worker. The vocabulary
// is closed: metrics, alerts and the command line use it.
type State string

// The states of an account.
const (
	// Available means that more than RotateAt is left in every window, or that the login
	// has no windows, such as an API key.
	Available State = "available"
	// Low means that at most RotateAt is left in a window, or that only credits are left:
	// the account serves turns only if no available one can.
	Low State = "low"
	// Exhausted means that a window is used up, or that the model endpoint refused a turn
	// for the account's quota. A later reading ends it, never the time of a reset alone.
	Exhausted State = "exhausted"
	// LoginInvalid means that the account's server does not accept the login any more. An
	// operator has to log the worker in.
	LoginInvalid State = "login_invalid"
	// Unknown means that nothing is known of the quota: it was never read, or a login
	// without windows was refused more than LimitlessPause ago. The account serves turns.
	Unknown State = "unknown"
)

// States are all states.
var States = []State{Available, Low, Exhausted, LoginInvalid, Unknown}

// Serves reports whether turns may run on an account in this state.
func (s State) Serves() bool { return s != Exhausted && s != LoginInvalid }

// LimitlessPause is how long a login without windows, such as an API key, is Exhausted
// after a refusal. Nothing can be read of the quota of such a login.
const LimitlessPause = time.Minute

// State is the meaning of the quota at now. Only the state of a login without windows changes
// by time alone: a window after its reset is not known to be free.
func (q Quota) State(p Policy, now time.Time) State {
	refused := !q.RefusedAt.IsZero()
	switch {
	case !q.InvalidAt.IsZero():
		return LoginInvalid
	case refused && q.limitless() && !now.Before(q.pauseEnds()):
		return Unknown
	case refused, q.usedUp() && !q.spendable():
		return Exhausted
	case q.At.IsZero():
		return Unknown
	case q.usedUp(), len(q.Windows) > 0 && q.Left() <= p.RotateAt:
		return Low
	}
	return Available
}

// pauseEnds is when the pause of a login without windows ends after its last refusal.
func (q Quota) pauseEnds() time.Time { return q.RefusedAt.Add(LimitlessPause) }

// Until is when an exhausted quota may be free again: the latest reset of the windows that
// are used up, or the reset that the refusal named. It is zero if it is not known or has
// passed. It is no promise: a reading decides.
func (q Quota) Until(now time.Time) time.Time {
	until := q.RefusedUntil
	for _, w := range q.Windows {
		if w.UsedRatio >= 1 && w.ResetsAt.After(until) {
			until = w.ResetsAt
		}
	}
	if !until.After(now) {
		return time.Time{}
	}
	return until
}
