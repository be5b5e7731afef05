package dispatch

import (
	"slices"
	"time"

	"codex-proxy/codex/appserver"
)

// Ask is the demand of a request on the pool.
type Ask struct {
	Model string
	// Key is the name of the request's API key. All requests without a name share
	// one key.
	Key string
	// Accounts are the only accounts that may serve the request, by the names of their
	// workers; nil: all may.
	Accounts []string
	// Lost is the lease on which the request's turn was lost; Acquire releases it.
	// Such a request still counts as in flight: it waits ahead of all others, and
	// neither the queue's limit nor a drain refuses it.
	Lost *Lease
	// Arrived orders the requests that wait again.
	Arrived time.Time
	// Avoid are connections that a turn of this request was lost on.
	Avoid []*appserver.Conn
	// LostCodexes serve several accounts, and have lost a turn of this request: the other accounts may not know yet
	// that such a codex has ended.
	LostCodexes []Codex
	// Decoding is how many bytes codex needs to decode the images of the request.
	Decoding int64
	// Prefer names the worker that serves the request if it has a slot just now;
	// empty is no preference.
	Prefer string
	// Conversation identifies the conversation; empty: none does. It matters while the
	// quota of accounts decides.
	Conversation string
	// Refused are the accounts that have refused this turn for their quota.
	Refused []string
	// OnSilence is called each Keepalive while the request waits, from the goroutine of
	// Acquire; its error ends the wait. Nil: nothing is called.
	OnSilence func() error
	Keepalive time.Duration
}

// Codex is one run of a codex that serves several accounts, and one of these accounts. It is empty for another codex.
type Codex struct{ Invocation, Account string }

// LostOn reports whether a turn of this request was lost in the run of codex, with another account of it. The account
// itself has another connection after a loss.
func (a Ask) LostOn(c Codex) bool {
	return c != Codex{} && slices.ContainsFunc(a.LostCodexes, func(lost Codex) bool {
		return lost.Invocation == c.Invocation && lost.Account != c.Account
	})
}

// again reports whether the request waits again, for its turn was lost.
func (a Ask) again() bool { return a.Lost != nil }

// allows reports whether the account may serve the request.
func (a Ask) allows(account string) bool {
	return a.Accounts == nil || slices.Contains(a.Accounts, account)
}

// refusedBy reports whether the account has refused this turn.
func (a Ask) refusedBy(account string) bool { return slices.Contains(a.Refused, account) }

// silence ticks each time OnSilence is due, until stop is called.
func (a Ask) silence() (ticks <-chan time.Time, stop func()) {
	if a.OnSilence == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(a.Keepalive)
	return ticker.C, ticker.Stop
}
