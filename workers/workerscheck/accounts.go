package workerscheck

import (
	"context"
	"fmt"
	"time"

	"codex-proxy/internal/checkup"
	"codex-proxy/probes"
	"codex-proxy/workers/accounts"
)

// readingBound is the age of a reading beyond which the daemon's readings fail: it reads each account of a running
// worker every accounts.IdleInterval.
const readingBound = 3 * accounts.IdleInterval

// accounts checks that the accounts have quota, and that the daemon can read it. It asks the daemon alone.
func (r *room) accounts(ctx context.Context) []checkup.Finding {
	if r.ReportErr != nil {
		return checkup.Unchecked("", "the daemon does not answer", "service").Alone()
	}
	known, err := r.Accounts(ctx, r.control)
	if err != nil {
		return checkup.Warning("", "not checked: "+err.Error(), "systemctl reload codex-proxy; then look again").Alone()
	}
	clock, err := r.Clock()
	if err != nil {
		return checkup.Unchecked("", err.Error(), "clock").Alone()
	}
	var found []checkup.Finding
	serving := 0
	for _, a := range known {
		if a.State.Serves() && !a.Paused {
			serving++
		}
		found = append(found, r.judgeAccount(a, clock.Now))
	}
	if serving == 0 && len(known) > 0 {
		found = append(found, checkup.Failure("",
			"no account may serve: each is exhausted, paused, or has no valid login",
			"codex-proxy accounts list; codex-proxy accounts resume NAME, or login NAME"))
	}
	return checkup.OrPassed(found, "no account is known")
}

func (r *room) judgeAccount(a accounts.Account, now time.Time) checkup.Finding {
	subject := "account " + a.Worker
	age := now.Sub(a.At).Round(time.Second)
	switch {
	case a.State == accounts.LoginInvalid:
		return checkup.Failure(subject, "has no valid login", "codex-proxy accounts login "+a.Worker)
	case a.State == accounts.Exhausted && !a.Until.IsZero():
		return checkup.Warning(subject, fmt.Sprintf("is exhausted, perhaps until %s", a.Until.Format(time.DateTime)),
			"wait, or add an account that you may use: codex-proxy accounts add")
	case a.State == accounts.Exhausted:
		return checkup.Warning(subject, "is exhausted",
			"wait, or add an account that you may use: codex-proxy accounts add")
	case !a.At.IsZero() && age > readingBound && runs(r.Report.Workers, a.Worker):
		return checkup.Warning(subject, fmt.Sprintf("was read %s ago, and is to be read every %s", age,
			accounts.IdleInterval),
			"journalctl -u codex-proxy CODEX_EVENT=account-unread CODEX_WORKER="+a.Worker+" -n 5")
	case a.Paused:
		return checkup.Warning(subject, "was paused by an operator: it takes no new turns",
			"codex-proxy accounts resume "+a.Worker)
	case a.State == accounts.Low:
		return checkup.Warning(subject, fmt.Sprintf("is low: %.0f %% left", 100*a.Left),
			"codex-proxy accounts list shows the resets")
	case len(a.Limits) == 0:
		return checkup.Passed(subject, fmt.Sprintf("%s, without limits that are known", a.State))
	}
	return checkup.Passed(subject, fmt.Sprintf("%s, %.0f %% left", a.State, 100*a.Left))
}

// runs reports whether the worker of an account takes turns, and so is read.
func runs(workers []probes.Worker, name string) bool {
	for _, w := range workers {
		if w.Name == name {
			return w.Ready && w.Reason != probes.Standby
		}
	}
	return false
}
