package push

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"codex-proxy/console/verbs"
	"codex-proxy/console/webpush"
	"codex-proxy/workers/control"
)

// The words of the orders.
var (
	endpoint = verbs.Match(`https://[!-~]{1,1000}`)
	point    = verbs.Match(`[A-Za-z0-9_-]{87}`)
	secret   = verbs.Match(`[A-Za-z0-9_-]{22}`)
)

// maxNew bounds the browsers that are being turned on at the same time, one with each key: orders share their places,
// and the person names the push service, which may be slow.
const maxNew = 2

// known is the answer to the order push.
type known struct {
	PublicKey string `json:"public_key"` // for the browser
	On        bool   `json:"on"`
}

// Verbs are the orders of a person with that key about the own browser. A key that may only look gets notices, too.
func (p *Pusher) Verbs(key control.ConsoleKey) map[string]verbs.Verb {
	all := map[string]verbs.Verb{
		"push": {Words: map[string]verbs.Form{"endpoint": endpoint},
			Run: func(_ context.Context, w verbs.Words, _ verbs.Send) (any, error) {
				return known{p.Key.Public(), w["endpoint"] != "" && p.Store.has(w["endpoint"], key)}, nil
			}},
		"subscribe": {Words: map[string]verbs.Form{"endpoint": endpoint, "p256dh": point, "auth": secret},
			Needs: []string{"endpoint", "p256dh", "auth"},
			Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
				return nil, p.subscribe(context.WithoutCancel(ctx), key,
					webpush.Subscription{Endpoint: w["endpoint"], P256dh: w["p256dh"], Auth: w["auth"]})
			}},
		"unsubscribe": {Words: map[string]verbs.Form{"endpoint": endpoint}, Needs: []string{"endpoint"},
			Run: func(_ context.Context, w verbs.Words, _ verbs.Send) (any, error) {
				if !p.Store.has(w["endpoint"], key) {
					return nil, nil
				}
				p.Logger.Info("notifications of the console are off", "api_key_name", key.Name)
				return nil, p.Store.remove(w["endpoint"])
			}},
	}
	if p.None == nil {
		return all
	}
	for name, verb := range all {
		verb.Run = func(context.Context, verbs.Words, verbs.Send) (any, error) { return nil, p.None }
		all[name] = verb
	}
	return all
}

var errOthers = errors.New("another browser is being turned on: try again in a moment")

// begin takes a place for a first message, which end gives back.
func (p *Pusher) begin(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turning[key] || len(p.turning) >= maxNew {
		return false
	}
	p.turning[key] = true
	return true
}

func (p *Pusher) end(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.turning, key)
}

// subscribe sends a first message, once: a browser that it does not reach is not kept.
func (p *Pusher) subscribe(ctx context.Context, key control.ConsoleKey, s webpush.Subscription) error {
	if err := s.Check(); err != nil {
		return err
	}
	if !p.begin(key.Name) {
		return errOthers
	}
	defer p.end(key.Name)
	p.current(ctx) // subscriptions of keys that do not exist any more make room
	if err := p.Store.room(s.Endpoint, key); err != nil {
		return err
	}
	first := message{Title: "Notifications are on", Body: "Remotes with push = true call here.", Tag: "on"}
	out, err := p.sealed(s, first)
	if err == nil {
		err = p.Deliver(ctx, out)
	}
	if err != nil {
		p.Count(ctx, Failed)
		return fmt.Errorf("the first notification was not delivered: %w", err)
	}
	p.Count(ctx, Sent)
	err = p.Store.add(browser{Subscription: s, Key: key.Name, KeyID: key.ID, Since: time.Now()})
	if err == nil {
		p.Logger.Info("notifications of the console are on", "api_key_name", key.Name)
	}
	return err
}

var (
	errUsed = errors.New("this was answered before, or is more than an hour old: open the page")
	errLess = errors.New("the key that this notification was for was revoked, or may not answer any more")
)

// Answer carries out the button of a notification, once, if its key still has the right to.
func (p *Pusher) Answer(ctx context.Context, token, decision string) error {
	if p.None != nil {
		return p.None
	}
	a, b, is := p.Store.find(token, time.Now())
	switch {
	case !is:
		return errUsed
	case !slices.Contains(a.Decisions, decision):
		return errors.New("this notification has no such button")
	}
	key, err := p.Ask(ctx, control.ConsoleAsk{Name: b.Key})
	if err != nil {
		return err
	}
	if !b.inForce(key) || key.Right != operate {
		return errLess
	}
	r, err := p.Remote(key, a.Remote)
	switch {
	case err != nil:
		return err
	case r == nil:
		return errLess
	}
	switch is, err = p.Store.take(token, time.Now()); {
	case err != nil:
		return err
	case !is: // at the same time
		return errUsed
	}
	p.Logger.Info("a notification was answered", "api_key_name", b.Key, "remote", a.Remote, "thread_id", a.Thread,
		"decision", decision)
	ctx = context.WithoutCancel(ctx)
	if err := r.Approve(ctx, a.Thread, a.Question, decision); err != nil {
		return err
	}
	p.later.Go(func() { p.further(ctx, Notice{Remote: a.Remote, Event: waiting, Thread: a.Thread}) })
	return nil
}
