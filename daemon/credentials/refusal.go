package credentials

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codex-proxy/workers/accounts"
	"codex-proxy/workers/broker"
)

// switchReasons are the words of why.
var switchReasons = []string{
	string(accounts.Exhausted), string(accounts.LoginInvalid), string(accounts.Low),
	paused, removed, switched, unavailable,
}

const (
	paused      = "paused"      // by an operator
	removed     = "removed"     // the account is gone, or the remote may not use it any more
	switched    = "switched"    // by an operator, or another one has more left
	unavailable = "unavailable" // its worker does not lend
)

// why is the word for why the account that the remote holds does not serve it any more.
func (b *Broker) why(ask broker.Ask, now time.Time) string {
	v, known := b.store.View(ask.Hold, now)
	switch {
	case !known, len(ask.Accounts) > 0 && !slices.Contains(ask.Accounts, ask.Hold):
		return removed
	case ask.Refused == broker.UsageLimit:
		return string(accounts.Exhausted)
	case v.Paused:
		return paused
	case !v.State.Serves():
		return string(v.State)
	case slices.Contains(ask.Avoid, ask.Hold) || !b.workers.SharesLogin(ask.Hold):
		return unavailable
	case v.State == accounts.Low:
		return string(accounts.Low)
	}
	return switched
}

// refusal is why no account lends.
func (b *Broker) refusal(ask broker.Ask, cs []accounts.Candidate, assignment accounts.Assignment,
	failed error) *broker.Error {
	if !assignment.Until.IsZero() {
		return &broker.Error{Code: broker.Held, RetryAt: assignment.Until,
			Message: "the remote has changed its account less than a minute ago, and waits for the next one"}
	}
	if len(cs) == 0 {
		return &broker.Error{Code: broker.NoAccount, Message: fmt.Sprintf(
			"there is no account %s; codex-proxy accounts list has all", strings.Join(ask.Accounts, ", "))}
	}
	now := time.Now()
	on := b.store.Policy().On()
	var exhausted, invalid, pauses, away int
	var until time.Time
	for i := range cs {
		v, _ := b.store.View(cs[i].Name, now)
		known := !v.Login.At.IsZero()
		limited := cs[i].Name == ask.Hold && ask.Refused == broker.UsageLimit
		switch {
		case known && v.Login.Type != "chatgpt":
		case cs[i].Paused:
			pauses++
		case limited || on && v.State == accounts.Exhausted:
			exhausted++
			if !v.Until.IsZero() && (until.IsZero() || v.Until.Before(until)) {
				until = v.Until
			}
		case on && v.State == accounts.LoginInvalid:
			invalid++
		default:
			away++
		}
	}
	switch {
	case exhausted > 0 && (away == 0 || !on):
		return exhaustedUntil(until, on)
	case away > 0 && failed != nil:
		return &broker.Error{Code: broker.Unavailable, Message: failed.Error()}
	case away > 0:
		return &broker.Error{Code: broker.Unavailable,
			Message: "no worker of an account lends its login now; see codex-proxy status"}
	case invalid > 0:
		return &broker.Error{Code: broker.LoginInvalid,
			Message: "no login of an account is accepted; codex-proxy accounts list, " +
				"then codex-proxy accounts login NAME"}
	case pauses > 0:
		return &broker.Error{Code: broker.Paused, Message: "every account is paused; codex-proxy accounts resume NAME"}
	}
	return &broker.Error{Code: broker.NoAccount,
		Message: "no account has a ChatGPT login that can be lent; codex-proxy accounts login NAME"}
}

func exhaustedUntil(until time.Time, rotates bool) *broker.Error {
	e := &broker.Error{Code: broker.QuotaExhausted, Message: "no account has quota", RetryAt: until}
	if !rotates {
		e.Message = `the account has no quota, and with rotation = "off" in [accounts] no other one takes its place`
	}
	if !until.IsZero() {
		e.Message += " until " + until.Format(time.RFC3339)
	}
	return e
}
