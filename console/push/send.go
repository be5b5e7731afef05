package push

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"codex-proxy/console/deliver"
	"codex-proxy/console/webpush"
)

// place waits for a place for a message of the key.
func (p *Pusher) place(ctx context.Context, key string) (leave func(), err error) {
	p.mu.Lock()
	own := p.own[key]
	if own == nil {
		own = make(chan struct{}, ofKey)
		p.own[key] = own
	}
	p.mu.Unlock()
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, errSlow
	}
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places; <-own }, nil
	case <-ctx.Done():
		<-own
		return nil, errSlow
	}
}

var errSlow = errors.New("the messages before it have taken too long")

// send sends one message, and counts it.
func (p *Pusher) send(ctx context.Context, b browser, m message, urgent bool, n Notice) {
	leave, err := p.place(ctx, b.Key)
	if err == nil {
		defer leave()
		err = p.deliver(ctx, b.Subscription, m, urgent)
	}
	if err != nil && p.final(b, err) {
		p.Count(ctx, Gone)
		return
	}
	if err != nil {
		p.Logger.Warn("a push has failed", "error", err, "api_key_name", b.Key, "remote", n.Remote, "event", n.Event)
		p.Count(ctx, Failed)
		return
	}
	p.Count(ctx, Sent)
}

// final forgets a browser that no message reaches any more. An address that is not public is no reason: a router whose
// line is down, or a filter, may answer each name with its own.
func (p *Pusher) final(b browser, err error) bool {
	var known *deliver.Error
	if !errors.As(err, &known) || known.Code != deliver.Gone {
		return false
	}
	p.forget(b, known.Message)
	return true
}

func (p *Pusher) forget(b browser, why string) {
	if err := p.Store.remove(b.Endpoint); err != nil {
		p.Logger.Warn("a push has failed", "error", err, "api_key_name", b.Key)
		return
	}
	p.Logger.Info("a browser gets no pushes any more", "api_key_name", b.Key, "reason", why)
}

// deliver sends a message, with a second try.
func (p *Pusher) deliver(ctx context.Context, to webpush.Subscription, m message, urgent bool) error {
	out, err := p.sealed(to, m)
	if err != nil {
		return err
	}
	if urgent {
		out.Urgency, out.TTL = "high", int(answerLife.Seconds())
	}
	err = p.Deliver(ctx, out)
	var known *deliver.Error
	if errors.As(err, &known) && known.Passing() {
		select {
		case <-time.After(p.pause):
			err = p.Deliver(ctx, out)
		case <-ctx.Done():
		}
	}
	return err
}

// sealed is a message as push services take it.
func (p *Pusher) sealed(to webpush.Subscription, m message) (out deliver.Message, err error) {
	text, err := json.Marshal(m)
	if err != nil {
		return out, err
	}
	body, err := to.Encrypt(text)
	if err != nil {
		return out, err
	}
	authorization, err := p.Key.Authorization(to, p.Contact, time.Now())
	return deliver.Message{Endpoint: to.Endpoint, Authorization: authorization, Urgency: "normal",
		TTL: int(otherLife.Seconds()), Body: body}, err
}
