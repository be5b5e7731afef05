package transcript

import (
	"context"
	"errors"
	"time"

	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
)

// pause is the least time between two updates.
const pause = 100 * time.Millisecond

// Follow calls each with the thread, and again at each change, until ctx ends or the remote does. Without a thread it
// follows the last one. It is attached as a viewer, so that others are still called if nobody is there; only while the
// turn waits for a person it is attached as an owner, too, to get the questions, and as a page, so that others are
// called.
func (r Remote) Follow(ctx context.Context, thread string, each func(Update) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	thread, err := r.last(ctx, thread)
	if err != nil {
		return err
	}
	if thread == "" {
		return each(Update{Questions: []Question{}})
	}
	v := newView(thread)
	s, err := r.open(ctx, authz.Viewer, handlers{notified: v.notified})
	if err != nil {
		return err
	}
	defer s.end()
	at, err := s.resume(ctx, thread, maxTurns)
	if err != nil {
		return err
	}
	v.begin(at)
	a := asking{Remote: r, view: v, thread: thread}
	defer a.end()
	for {
		select {
		case <-v.changed:
		case <-a.done():
			a.end() // codex asks the next connection
			a.rest = min(maxRest, max(pause, 2*a.rest))
			a.again = time.Now().Add(a.rest)
		case <-a.rested():
		case <-s.Done():
			return errors.New("the remote has ended the connection, as for a restart")
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := a.follow(ctx); err != nil {
			return err
		}
		if err := each(v.take()); err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// maxRest is the longest time before the next connection of an owner, after several that have ended by themselves.
const maxRest = 10 * time.Second

// asking is the connection of an owner, while a turn waits for a person.
type asking struct {
	Remote
	view    *view
	thread  string
	session *session
	rest    time.Duration // before the next one
	again   time.Time     // the end of the rest
}

// rested fires when the rest is over; never if nothing waits for that.
func (a *asking) rested() <-chan time.Time {
	if a.session != nil || a.ReadOnly || !a.view.waits() {
		return nil
	}
	return time.After(time.Until(a.again))
}

// follow attaches or leaves, as the turn waits or goes on. Meanwhile viewers go on: it does not wait for the end of a
// rest.
func (a *asking) follow(ctx context.Context) (err error) {
	waits := a.view.waits() && !a.ReadOnly
	switch {
	case !waits:
		a.end()
		a.rest, a.again = 0, time.Time{}
	case a.session == nil && !time.Now().Before(a.again):
		shows := a.Remote
		shows.program = remotes.Page
		if a.session, err = shows.open(ctx, authz.Owner, handlers{asked: a.view.ask}); err == nil {
			_, err = a.session.resume(ctx, a.thread, 1)
		}
	}
	return err
}

// done is closed when the connection has ended.
func (a *asking) done() <-chan struct{} {
	if a.session == nil {
		return nil
	}
	return a.session.Done()
}

func (a *asking) end() {
	if a.session == nil {
		return
	}
	a.session.end()
	a.session = nil
	a.view.forget()
}
