package remotes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"codex-proxy/broker/modelproxy"
	"codex-proxy/codex/turnerror"
	"codex-proxy/codex/wire"
	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/turnjournal"
)

// Accounts lend a remote the quota of accounts. codex has no login of theirs, but a stand-in.
type Accounts interface {
	// Login is the stand-in for the account that serves now.
	Login() Login
	// Settle changes the account if another one should serve, and returns the results of Denied. It is called about
	// once a second while no turn runs. waits means that a turn waits for quota: it may go on if why is empty.
	Settle(ctx context.Context, waits bool) (why string, until time.Time)
	// Denied is why no account serves, and until when, if that is known; empty if one does.
	Denied() (why string, until time.Time)
}

// Login is a login for account/login/start, of the type chatgptAuthTokens.
type Login = modelproxy.Login

// person is the part of a login that codex shows.
func person(l Login) [2]string { return [2]string{l.Plan, l.Email} }

type loginParams struct {
	Type  string `json:"type,omitempty"`
	Token string `json:"accessToken"`
	ID    string `json:"chatgptAccountId"`
	Plan  string `json:"chatgptPlanType"`
}

// loginBound bounds a login, which asks nobody.
const loginBound = 10 * time.Second

// login logs codex in, and waits until it is: the answer to the request does not report that.
func (l logins) login(ctx context.Context) error {
	if l.opts.Accounts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginBound)
	defer cancel()
	login := l.opts.Accounts.Login()
	select { // of an earlier one
	case <-l.loginEnd:
	default:
	}
	params := loginParams{"chatgptAuthTokens", login.Token, login.ID, login.Plan}
	if err := l.c.Call(ctx, "account/login/start", params, nil); err != nil {
		return fmt.Errorf("codex refuses its login: %w", err)
	}
	select {
	case failed := <-l.loginEnd:
		if failed != "" {
			return errors.New("codex cannot log in: " + failed)
		}
	case <-ctx.Done():
		return errors.New("codex does not end its login")
	}
	l.shown = person(login)
	l.record(func(s *state) { s.journal.Account = login.Account })
	return nil
}

// refresh answers with the same login: the account that serves codex changes without it.
func (l logins) refresh(msg message) {
	if l.opts.Accounts == nil {
		return
	}
	login := l.opts.Accounts.Login()
	// an error is the connection's end
	_ = l.c.Reply(msg.id, loginParams{Token: login.Token, ID: login.ID, Plan: login.Plan})
}

// loggedIn passes on the end of a login.
func (l logins) loggedIn(success bool, reason string) {
	if success {
		reason = ""
	} else if reason == "" {
		reason = "it does not say why"
	}
	select {
	case l.loginEnd <- reason:
	default: // nobody waits for it
	}
}

// Switched records that another account serves.
func (m *Manager) Switched(from, to, why string) {
	m.record(func(s *state) {
		s.journal.Account = to
		s.journal.Switches++
	})
	m.emit(Event{Kind: Switched, Account: to, From: from, Detail: why})
}

// account settles which account serves, until ctx ends.
func (l logins) account(ctx context.Context) {
	for l.opts.Accounts != nil && ctx.Err() == nil {
		l.settle(ctx)
		pause(ctx, sweepPeriod)
	}
}

// settle has the account changed between turns, shows people the login of the one that serves, and continues the turns
// that wait for quota.
func (l logins) settle(ctx context.Context) {
	runs := false
	var waiting []string
	l.update(func(s *state) {
		runs = s.runs()
		for id, r := range s.journal.Threads {
			if r.Quota {
				waiting = append(waiting, id)
			}
		}
	})
	if runs {
		return
	}
	if why, _ := l.opts.Accounts.Settle(ctx, len(waiting) > 0); why != "" {
		return
	}
	if person(l.opts.Accounts.Login()) != l.shown {
		if err := l.login(ctx); err != nil {
			l.opts.Logger.Warn("codex shows people an account that does not serve any more", "error", err)
		}
	}
	for _, thread := range waiting {
		l.refill(ctx, thread)
	}
}

// runs means that codex runs a turn.
func (s *state) runs() bool {
	for _, t := range s.threads {
		if t.status.Active() {
			return true
		}
	}
	return false
}

// wantsQuota records, at the end of a turn for want of quota, that the turn goes on when there is some.
func (s *state) wantsQuota(thread string, t codexthread.Turn, mode remoteconfig.Continue) bool {
	r := s.journal.Threads[thread]
	switch {
	case !lacksQuota(t.Error), mode == remoteconfig.Never, s.thread(thread).hidden,
		r == nil, r.Turn != t.ID, r.Kind != "", r.Interrupted != "",
		slices.ContainsFunc(r.Inputs, func(i turnjournal.Input) bool { return !i.Seen }): // it starts the next turn
		return false
	}
	r.Inputs, r.Asked, r.Quota = nil, true, true
	return true
}

// lacksQuota means that the account had nothing left. A refusal for the model alone is no matter of quota: the same
// account serves, and would refuse the model again.
func lacksQuota(e *turnerror.Error) bool { return e != nil && e.Account() == turnerror.UsageLimit }

// exhausted keeps a turn that has ended for want of quota, until an account has some.
func (l logins) exhausted(ctx context.Context, thread string, t codexthread.Turn) {
	why, until := l.opts.Accounts.Settle(ctx, true)
	switch {
	case ctx.Err() != nil: // it waits for the next codex
		return
	case why == "": // one has some
		l.refill(ctx, thread)
		return
	}
	if l.opts.Continue == remoteconfig.Ask {
		l.record(func(s *state) {
			if r := s.journal.Threads[thread]; r != nil {
				r.Quota = false
			}
		})
	}
	when := ""
	if !until.IsZero() {
		when = ", which is expected at " + until.Local().Format("15:04 MST on 2 January")
	}
	text := fmt.Sprintf("%s. This turn goes on by itself when an account has quota%s. A new message starts another one.",
		why, when)
	if l.opts.Continue == remoteconfig.Ask {
		text = fmt.Sprintf("%s. When an account has quota%s, `codex-proxy remotes continue %s` continues this turn.",
			why, when, l.opts.Name)
	}
	l.emit(Event{Kind: Exhausted, Thread: thread, Turn: t.ID, Detail: why})
	l.show(ctx, thread, text)
}

// refill continues a turn that waits for quota, unless its user did something else meanwhile. These turns do not count
// as cut ones: each goes on only with an account that has quota.
func (l logins) refill(ctx context.Context, thread string) {
	waits := false
	l.record(func(s *state) {
		// Quota stays until the turn has started: after a crash before that, it waits again.
		if r := s.journal.Threads[thread]; r != nil && r.Quota && r.Asked {
			waits, r.Asked, r.Kind = true, false, ""
			s.hold(thread)
		}
	})
	if !waits {
		return
	}
	defer l.release(thread)
	_, err := l.resume(ctx, thread)
	var started wire.TurnStarted
	if err == nil {
		err = l.c.Call(ctx, "turn/start", continuation(thread, nil), &started)
	}
	if err != nil {
		_ = l.lose(thread, err) // the end of the connection is met elsewhere
		return
	}
	l.record(func(s *state) { s.started(thread, started.Turn.ID, time.Now()) })
	l.emit(Event{Kind: Refilled, Thread: thread, Turn: started.Turn.ID})
}
