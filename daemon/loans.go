package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/unixtime"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/logins"
)

// tellEvery is the interval of notices of a choice that changes by time alone, and tellPause the least time between
// two looks.
const (
	tellEvery = time.Second
	tellPause = 50 * time.Millisecond
)

// loans lends the logins of accounts to remotes. It chooses, and the workers lend: no token passes through it.
type loans struct {
	book    *accounts.Book
	workers loanWorkers
	main    func(ctx context.Context, pid uint32) (units.MainProcess, error)
	server  *logins.Server
	changed chan struct{} // holds a token when the choice may have changed

	lent     *prometheus.CounterVec
	switches *prometheus.CounterVec
	holders  *prometheus.Desc

	mu        sync.Mutex
	borrowers map[string]borrower
}

// loanWorkers is the part of the pool that lends.
type loanWorkers interface {
	Lends(worker string) bool
	Connect(worker, line string) (*os.File, error)
	Reported(worker string, limits json.RawMessage)
}

// borrower is the remembered state of a remote.
type borrower struct {
	now accounts.Conversation
	// before is the conversation before the current account: it counts if the new one has lent nothing.
	before accounts.Conversation
}

func newLoans(book *accounts.Book, workers loanWorkers, systemd *units.Manager, logger *slog.Logger) *loans {
	l := &loans{
		book: book, workers: workers, main: systemd.MainProcessOf, changed: make(chan struct{}, 1),
		borrowers: map[string]borrower{},
		lent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_account_loans_total",
			Help: "Times that the login of the account was lent to a remote.",
		}, []string{"account"}),
		switches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_account_remote_switches_total",
			Help: "Times that a remote got another account, by the account that it left and the reason.",
		}, []string{"from", "reason"}),
		holders: prometheus.NewDesc("codex_account_remotes", "Remotes that use the account.", []string{"account"}, nil),
	}
	for _, v := range book.Views(time.Now()) {
		l.lent.WithLabelValues(v.Name)
		for _, reason := range switchReasons {
			l.switches.WithLabelValues(v.Name, reason)
		}
	}
	l.server = &logins.Server{Peer: l.peer, Lend: l.lend, Reading: workers.Reported, Logger: logger}
	return l
}

// peer returns which remote the process is.
func (l *loans) peer(ctx context.Context, pid int32) (logins.Peer, error) {
	main, err := l.main(ctx, uint32(pid))
	if err != nil && !errors.Is(err, units.ErrNotMain) {
		return logins.Peer{}, fmt.Errorf("systemd does not tell which remote this is: %w", err)
	}
	name, ok := strings.CutPrefix(main.Unit, "codex-remote@")
	name, isService := strings.CutSuffix(name, ".service")
	if err != nil || !ok || !isService || units.ValidRemoteName(name) != nil {
		return logins.Peer{}, &logins.Error{Code: logins.NotARemote,
			Message: "logins are lent to the main process of a remote alone, codex-remote@NAME.service"}
	}
	return logins.Peer{Remote: name, Run: main.Run}, nil
}

// serve answers remotes on the listener, and notifies them of changes, until ctx ends.
func (l *loans) serve(ctx context.Context, listener net.Listener) error {
	telling := make(chan struct{})
	go func() { defer close(telling); l.tell(ctx) }()
	err := l.server.Serve(ctx, listener)
	<-telling
	return err
}

// touch is for every change of the accounts and of the workers. It does not block.
func (l *loans) touch() {
	select {
	case l.changed <- struct{}{}:
	default: // the token that is there covers this change, too
	}
}

func (l *loans) tell(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l.server.Tell(l.would)
		select {
		case <-time.After(tellPause):
		case <-ctx.Done():
			return
		}
	}
}

// would reports whether a remote would get another account than the one that it holds.
func (l *loans) would(remote string, held logins.Ask) bool {
	held.Have = true
	l.mu.Lock()
	defer l.mu.Unlock()
	cs, loan := l.choose(remote, held, nil, time.Now())
	return loan.Index >= 0 && cs[loan.Index].Name != held.Hold
}

// lend answers an ask of a remote.
func (l *loans) lend(_ context.Context, remote string, ask logins.Ask) (logins.Loan, error) {
	now := time.Now()
	switch ask.Refused {
	case logins.UsageLimit:
		if l.holds(remote, ask.Hold) {
			l.book.Refuse(ask.Hold, unixtime.Of(ask.ResetsAt), now)
		}
	case logins.Unauthorized:
		l.book.Doubt(ask.Hold, now)
	}
	out := slices.Clone(ask.Avoid)
	var failed error
	for {
		l.mu.Lock()
		cs, loan := l.choose(remote, ask, out, now)
		if loan.Index < 0 {
			l.mu.Unlock()
			return logins.Loan{}, l.refusal(ask, cs, loan, failed)
		}
		chosen := cs[loan.Index].Name
		if ask.Waits && cs[loan.Index].State == accounts.Exhausted { // a rotation chooses no such account
			l.mu.Unlock()
			v, _ := l.book.View(chosen, now)
			return logins.Loan{}, exhaustedUntil(v.Until, false)
		}
		if chosen == ask.Hold && ask.Have && ask.Refused == "" {
			l.record(remote, ask, loan, now)
			l.mu.Unlock()
			return logins.Loan{Account: chosen}, nil
		}
		l.mu.Unlock()
		worker, err := l.workers.Connect(chosen, logins.QuestionFor(ask))
		if err != nil {
			failed = err
			out = append(out, chosen)
			continue
		}
		l.mu.Lock()
		l.record(remote, ask, loan, now)
		l.mu.Unlock()
		l.lent.WithLabelValues(chosen).Inc()
		answer := logins.Loan{Account: chosen, Worker: worker}
		if ask.Hold != "" && ask.Hold != chosen {
			answer.Why = l.why(ask, now)
			l.switches.WithLabelValues(ask.Hold, answer.Why).Inc()
		}
		return answer, nil
	}
}

// holds reports whether the remote may hold the account, as far as this process knows.
func (l *loans) holds(remote, account string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.borrowers[remote]
	return known.now.Account == "" || known.now.Account == account || known.before.Account == account
}

// choose is the choice of the accounts for the ask, without those that are out. It is under the lock.
func (l *loans) choose(remote string, ask logins.Ask, out []string,
	now time.Time) ([]accounts.Candidate, accounts.Loan) {
	var cs []accounts.Candidate
	for _, v := range l.book.Views(now) {
		if len(ask.Accounts) > 0 && !slices.Contains(ask.Accounts, v.Name) {
			continue
		}
		c := accounts.CandidateOf(&v)
		known := !v.Login.At.IsZero()
		has := ask.Have && ask.Refused == "" && v.Name == ask.Hold // it needs no worker
		c.Place = (!known || v.Login.Type == "chatgpt") && !slices.Contains(out, v.Name) &&
			(has || l.workers.Lends(v.Name))
		cs = append(cs, c)
	}
	b := accounts.Borrower{Limited: ask.Refused == logins.UsageLimit, Turn: ask.Turn}
	b.Conversation = l.conversation(remote, ask)
	return cs, accounts.Lend(l.book.Policy(), cs, b, l.book.Switches(), now)
}

// conversation is the remote's conversation. The book has the pause of one that an earlier process served.
func (l *loans) conversation(remote string, ask logins.Ask) accounts.Conversation {
	known := l.borrowers[remote]
	c := known.now
	switch {
	case c.Account == "":
		c = l.book.Rotation(conversationOf(remote))
	case c.Account != ask.Hold && ask.Hold != "" && ask.Hold == known.before.Account:
		c = known.before // its new account has lent nothing
	}
	if ask.Hold != "" {
		c.Account = ask.Hold
	}
	return c
}

// conversationOf is the name of a remote's turns in the book. No conversation of the API has such a name.
func conversationOf(remote string) string { return "remote " + remote }

// record keeps the loan. The caller holds the lock.
func (l *loans) record(remote string, ask logins.Ask, loan accounts.Loan, now time.Time) {
	before := l.conversation(remote, ask)
	if loan.Next.Account != before.Account && loan.Next.Rotated.Equal(now) {
		l.book.Rotate(conversationOf(remote), accounts.Rotated{Account: loan.Next.Account, At: now})
	}
	known := borrower{now: loan.Next, before: l.borrowers[remote].before}
	if loan.Next.Account != before.Account {
		known.before = before
	}
	l.borrowers[remote] = known
}

// switchReasons are the words of why.
var switchReasons = []string{
	string(accounts.Exhausted), string(accounts.LoginInvalid), string(accounts.Low), paused, removed, switched, unavailable,
}

const (
	paused      = "paused"      // by an operator
	removed     = "removed"     // the account is gone, or the remote may not use it any more
	switched    = "switched"    // by an operator, or another one has more left
	unavailable = "unavailable" // its worker does not lend
)

// why is the word for why the account that the remote holds does not serve it any more.
func (l *loans) why(ask logins.Ask, now time.Time) string {
	v, known := l.book.View(ask.Hold, now)
	switch {
	case !known, len(ask.Accounts) > 0 && !slices.Contains(ask.Accounts, ask.Hold):
		return removed
	case ask.Refused == logins.UsageLimit:
		return string(accounts.Exhausted)
	case v.Paused:
		return paused
	case !v.State.Serves():
		return string(v.State)
	case slices.Contains(ask.Avoid, ask.Hold) || !l.workers.Lends(ask.Hold):
		return unavailable
	case v.State == accounts.Low:
		return string(accounts.Low)
	}
	return switched
}

// refusal is why no account lends.
func (l *loans) refusal(ask logins.Ask, cs []accounts.Candidate, loan accounts.Loan, failed error) *logins.Error {
	if !loan.Until.IsZero() {
		return &logins.Error{Code: logins.Held, RetryAt: loan.Until,
			Message: "the remote has changed its account less than a minute ago, and waits for the next one"}
	}
	if len(cs) == 0 {
		return &logins.Error{Code: logins.NoAccount, Message: fmt.Sprintf(
			"there is no account %s; codex-proxy accounts list has all", strings.Join(ask.Accounts, ", "))}
	}
	now := time.Now()
	on := l.book.Policy().On()
	var exhausted, invalid, pauses, away int
	var until time.Time
	for i := range cs {
		v, _ := l.book.View(cs[i].Name, now)
		known := !v.Login.At.IsZero()
		limited := cs[i].Name == ask.Hold && ask.Refused == logins.UsageLimit
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
		return &logins.Error{Code: logins.Unavailable, Message: failed.Error()}
	case away > 0:
		return &logins.Error{Code: logins.Unavailable,
			Message: "no worker of an account lends its login now; see codex-proxy status"}
	case invalid > 0:
		return &logins.Error{Code: logins.LoginInvalid,
			Message: "no login of an account is accepted; codex-proxy accounts list, " +
				"then codex-proxy accounts login NAME"}
	case pauses > 0:
		return &logins.Error{Code: logins.Paused, Message: "every account is paused; codex-proxy accounts resume NAME"}
	}
	return &logins.Error{Code: logins.NoAccount,
		Message: "no account has a ChatGPT login that can be lent; codex-proxy accounts login NAME"}
}

func exhaustedUntil(until time.Time, rotates bool) *logins.Error {
	e := &logins.Error{Code: logins.QuotaExhausted, Message: "no account has quota", RetryAt: until}
	if !rotates {
		e.Message = `the account has no quota, and with rotation = "off" in [accounts] no other one takes its place`
	}
	if !until.IsZero() {
		e.Message += " until " + until.Format(time.RFC3339)
	}
	return e
}

// Describe implements prometheus.Collector.
func (l *loans) Describe(out chan<- *prometheus.Desc) {
	l.lent.Describe(out)
	l.switches.Describe(out)
	out <- l.holders
}

// Collect implements prometheus.Collector.
func (l *loans) Collect(out chan<- prometheus.Metric) {
	l.lent.Collect(out)
	l.switches.Collect(out)
	holders := l.server.Holders()
	for _, v := range l.book.Views(time.Now()) {
		out <- prometheus.MustNewConstMetric(l.holders, prometheus.GaugeValue, float64(len(holders[v.Name])), v.Name)
	}
}
