package remotes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// outcome counts what became of the records at a start.
type outcome struct{ threads, continued, asked, ended int }

// String is for people, such as "2 threads, 1 turn continued".
func (o outcome) String() string {
	parts := []string{plural(o.threads, "running turn")}
	if o.threads == 0 {
		parts[0] = "no turn was cut"
	}
	for _, p := range []struct {
		n    int
		what string
	}{{o.continued, "continued"}, {o.asked, "waiting for its user's word"}, {o.ended, "not continued"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// reconcile does for each record what decide says. An error means that the connection has ended.
func (l *link) reconcile(ctx context.Context) (o outcome, err error) {
	var threads []string
	l.update(func(s *state) { threads = s.ledger.threads() })
	for _, thread := range threads {
		if err := l.reconcileThread(ctx, thread, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// recent is how many turns of a thread the keeper compares with its record: the cut one, and a few that may have started
// since the record began.
const recent = 4

func (l *link) reconcileThread(ctx context.Context, thread string, o *outcome) error {
	found, err := l.resume(ctx, thread, recent)
	if e, ok := refused(err); ok {
		l.opts.Logger.Error("codex cannot resume a thread whose turn was cut", "thread_id", thread, "error", e)
		l.emit(Event{Kind: Lost, Thread: thread, Detail: e.Message})
		l.record(func(s *state) { s.drop(thread, time.Now()) })
		return nil
	} else if err != nil {
		return err
	}
	var r record
	l.update(func(s *state) {
		if at := s.ledger.Threads[thread]; at != nil {
			r = at.clone()
		}
		s.thread(thread).subscribed, s.thread(thread).status = true, found.Thread.Status
	})
	v := decide(r, found.Page.Data, policy{l.opts.Continue, l.opts.Limit})
	if v.action != forget {
		o.threads++
	}
	return l.perform(ctx, thread, r, v, found.Page.Data, o)
}

// resume loads a thread and subscribes to it. The result has its last turns, the newest first.
func (l *link) resume(ctx context.Context, thread string, turns int) (resumeResult, error) {
	params := resumeParams{ThreadID: thread, ExcludeTurns: true,
		Page: turnsPage{Limit: turns, Direction: "desc", View: "full"}}
	for {
		var r resumeResult
		err := l.c.Call(ctx, "thread/resume", params, &r)
		if e, ok := refused(err); !ok || !strings.Contains(e.Message, "is closing; retry thread/resume") || ctx.Err() != nil {
			return r, err
		}
		pause(ctx, attempt)
	}
}

// perform does what was decided about one record.
func (l *link) perform(ctx context.Context, thread string, r record, v verdict, last []turn, o *outcome) error {
	cut := Event{Thread: thread, Turn: r.Turn}
	if v.action != forget && v.action != adopt && !r.Asked {
		l.emitKind(cut, Cut)
	}
	switch v.action {
	case adopt:
		l.record(func(s *state) { s.started(thread, last[0].ID, time.Now()) })
	case proceed:
		o.continued++
		return l.proceed(ctx, thread, v.inputs)
	case ask:
		o.asked++
		l.record(func(s *state) { s.ensure(thread, r.Since).Asked = true })
		if !r.Asked {
			l.emitKind(cut, Asked)
			l.say(ctx, thread, "This turn was cut by a restart. It goes on after: codex-proxy remotes continue")
		}
	case leave, giveUp:
		o.ended++
		l.record(func(s *state) {
			s.drop(thread, time.Now())
			s.other(thread, kinds["thread/shellCommand"], time.Now()) // say is one
		})
		if v.action == leave {
			l.emitKind(cut, Left)
			l.say(ctx, thread, `This turn was cut by a restart and does not go on: continue = "never".`)
			break
		}
		l.emitKind(cut, LimitReached)
		l.say(ctx, thread, fmt.Sprintf(
			"This turn was cut by a restart again, after it went on %d times. It does not go on: continue_limit.", r.Continued))
	case forget:
		l.record(func(s *state) { s.drop(thread, time.Now()) })
	}
	return nil
}

// proceed continues the last turn of a thread, with the messages that codex has lost, or none. The attempt is in the
// ledger before it begins.
func (l *link) proceed(ctx context.Context, thread string, lost []input) error {
	l.record(func(s *state) {
		r := s.ensure(thread, time.Now())
		r.Continued++
		r.Asked, r.Kind, r.Inputs = false, "", lost // codex has the others
		s.ledger.Continued++
	})
	var started turnStartResult
	err := l.c.Call(ctx, "turn/start", continuation(thread, lost), &started)
	if e, ok := refused(err); ok {
		l.opts.Logger.Error("codex does not continue a cut turn", "thread_id", thread, "error", e)
		l.emit(Event{Kind: Lost, Thread: thread, Detail: e.Message})
		l.record(func(s *state) { s.drop(thread, time.Now()) })
		return nil
	} else if err != nil {
		return err
	}
	l.record(func(s *state) { s.started(thread, started.Turn.ID, time.Now()) })
	l.emit(Event{Kind: Continued, Thread: thread, Turn: started.Turn.ID})
	if len(lost) > 0 {
		l.emit(Event{Kind: Redelivered, Thread: thread, Turn: started.Turn.ID, Detail: plural(len(lost), "message")})
	}
	return nil
}

// continuation is the request that continues a turn. Several lost messages become one: codex takes up one at a time, and
// the others would be lost again.
func continuation(thread string, lost []input) turnStartParams {
	p := turnStartParams{ThreadID: thread, Input: []json.RawMessage{}}
	for _, i := range lost {
		var parts []json.RawMessage
		if json.Unmarshal(i.Content, &parts) == nil {
			p.Input = append(p.Input, parts...)
		}
	}
	if len(lost) > 0 {
		p.ClientID = lost[0].ClientID
	}
	return p
}
