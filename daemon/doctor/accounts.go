package doctor

import (
	"context"
	"fmt"
	"time"

	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

// readingBound is the age of a reading beyond which the daemon's readings fail: it reads each account of a running
// worker every accounts.IdleInterval.
const readingBound = 3 * accounts.IdleInterval

// checkAccounts checks that the accounts have quota, and that the daemon can read it. It asks the daemon alone.
func checkAccounts(ctx context.Context, s *survey) []Finding {
	if s.reportErr != nil {
		return []Finding{unchecked("", "the daemon does not answer", "service")}
	}
	known, err := s.Accounts(ctx, s.controlSocket())
	if err != nil {
		return []Finding{warn("", "not checked: "+err.Error(), "systemctl reload codex-proxy; then look again")}
	}
	clock, err := s.Clock()
	if err != nil {
		return []Finding{unchecked("", err.Error(), "clock")}
	}
	var found []Finding
	serving := 0
	for _, a := range known {
		if a.State.Serves() && !a.Paused {
			serving++
		}
		found = append(found, s.judgeAccount(a, clock.Now))
	}
	if serving == 0 && len(known) > 0 {
		found = append(found, fail("", "no account may serve: each is exhausted, paused, or has no valid login",
			"codex-proxy accounts list; codex-proxy accounts resume NAME, or login NAME"))
	}
	return orOK(found, "no account is known")
}

func (s *survey) judgeAccount(a workers.Account, now time.Time) Finding {
	subject := "account " + a.Worker
	age := now.Sub(a.At).Round(time.Second)
	switch {
	case a.State == accounts.LoginInvalid:
		return fail(subject, "has no valid login", "codex-proxy accounts login "+a.Worker)
	case a.State == accounts.Exhausted && !a.Until.IsZero():
		return warn(subject, fmt.Sprintf("is exhausted, perhaps until %s", a.Until.Format(time.DateTime)),
			"wait, or add an account that you may use: codex-proxy accounts add")
	case a.State == accounts.Exhausted:
		return warn(subject, "is exhausted", "wait, or add an account that you may use: codex-proxy accounts add")
	case !a.At.IsZero() && age > readingBound && s.runs(a.Worker):
		return warn(subject, fmt.Sprintf("was read %s ago, and is to be read every %s", age, accounts.IdleInterval),
			"journalctl -u codex-proxy CODEX_EVENT=account-unread CODEX_WORKER="+a.Worker+" -n 5")
	case a.Paused:
		return warn(subject, "was paused by an operator: it takes no new turns",
			"codex-proxy accounts resume "+a.Worker)
	case a.State == accounts.Low:
		return warn(subject, fmt.Sprintf("is low: %.0f %% left", 100*a.Left),
			"codex-proxy accounts list shows the resets")
	case len(a.Limits) == 0:
		return ok(subject, fmt.Sprintf("%s, without limits that are known", a.State))
	}
	return ok(subject, fmt.Sprintf("%s, %.0f %% left", a.State, 100*a.Left))
}

// runs reports whether the worker of an account takes turns, and so is read.
func (s *survey) runs(name string) bool {
	for _, w := range s.report.Workers {
		if w.Name == name {
			return w.Ready && w.Reason != probes.Standby
		}
	}
	return false
}
