package remotes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"codex-proxy/codex/wire"
	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/rollout"
	"codex-proxy/remotes/turnjournal"
)

// outcome counts the decisions about the records at a start.
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

// reconcile carries out the decision about each record. An error means that the connection has ended.
func (l recovery) reconcile(ctx context.Context) (o outcome, err error) {
	var threads []string
	l.update(func(s *state) { threads = s.journal.IDs() })
	for _, thread := range threads {
		if err := l.reconcileThread(ctx, thread, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// recent is how many turns of a thread the manager compares with its record: the cut one, and a few that may have
// started since the record began.
const recent = 4

func (l recovery) reconcileThread(ctx context.Context, thread string, o *outcome) error {
	var r turnjournal.Record
	l.update(func(s *state) { r = s.ensure(thread, time.Now()).Clone() })
	h, err := l.history(ctx, thread)
	if _, gone := refused(err); gone && len(r.Inputs) > 0 && r.Interrupted == "" {
		o.threads++
		return l.lose(thread, l.rescue(ctx, thread, r.Inputs))
	}
	if err != nil {
		return l.lose(thread, err)
	}
	if h.hidden {
		l.record(func(s *state) { s.drop(thread, time.Now()) })
		return nil
	}
	v := decide(r, h.turns, policy{l.opts.Continue, l.opts.Limit})
	if v.action != forget {
		o.threads++
	}
	return l.lose(thread, l.perform(ctx, thread, r, v, h, o))
}

// rescue sends the messages to a new thread, as codex was killed before it had a file of theirs: some 100 ms after
// thread/start at most. attach finds the new thread.
func (l recovery) rescue(ctx context.Context, thread string, lost []turnjournal.Input) error {
	message := merged(lost)[0]
	params := map[string]json.RawMessage{}
	for _, name := range []string{"cwd", "model", "approvalPolicy"} {
		if v, ok := message.Settings[name]; ok {
			params[name] = v
		}
	}
	var started threadResult
	if err := l.c.Call(ctx, "thread/start", params, &started); err != nil {
		return err
	}
	id := started.Thread.ID
	defer l.holdNew(id)()
	l.introduced(id)
	l.record(func(s *state) { // in one write, so that the messages are sent once
		s.drop(thread, time.Now())
		s.asked(id, message, time.Now())
	})
	var turn wire.TurnStarted
	if err := l.c.Call(ctx, "turn/start", continuation(id, []turnjournal.Input{message}), &turn); err != nil {
		return err
	}
	l.record(func(s *state) { s.started(id, turn.Turn.ID, time.Now()) })
	l.emit(Event{Kind: Redelivered, Thread: id, Turn: turn.Turn.ID,
		Detail: plural(len(lost), "message") + " of thread " + thread + ", which codex has lost"})
	return nil
}

// history is the rest of a thread.
type history struct {
	turns []codexthread.Turn // the last ones, the newest first
	path  string             // of codex's file; empty: the thread runs, or its file cannot be read
	// hidden means that the thread is the work of another turn, which does it again.
	hidden bool
}

// history reads the last turns of a thread: from codex if it runs the thread, else from the file.
func (l *codexConn) history(ctx context.Context, thread string) (h history, err error) {
	var found threadResult
	if err := l.c.Call(ctx, "thread/read", threadParams{thread}, &found); err != nil {
		return h, err
	}
	if h.hidden = found.Thread.Hidden(); h.hidden {
		return h, nil
	}
	if !found.Thread.Status.Active() {
		r, err := readThread(l.home, found.Thread.Path, thread)
		if err == nil {
			return history{turns: r.Turns, path: found.Thread.Path}, nil
		}
		l.opts.Logger.Warn("cannot read codex's file of a thread", "thread_id", thread, "error", err)
	}
	h.turns, err = l.turns(ctx, thread)
	return h, err
}

func readThread(home, path, thread string) (rollout.Rollout, error) {
	f, err := rollout.Open(home, path, thread, os.O_RDONLY)
	if err != nil {
		return rollout.Rollout{}, err
	}
	defer f.Close()
	return rollout.Read(f, recent)
}

// turns are the last turns of a thread as codex lists them, the newest first.
func (l *codexConn) turns(ctx context.Context, thread string) ([]codexthread.Turn, error) {
	var r turnsResult
	err := l.c.Call(ctx, "thread/turns/list", turnsParams{
		ThreadID: thread, turnsPage: turnsPage{Limit: recent, Direction: "desc", View: "full"}}, &r)
	return r.Data, err
}

// lose forgets the turn of a thread if codex refuses a request that the manager needs. Any other error is the end of
// the connection.
func (l *codexConn) lose(thread string, err error) error {
	e, ok := refused(err)
	if !ok {
		return err
	}
	l.opts.Logger.Error("codex does not continue a thread", "thread_id", thread, "error", e)
	l.emit(Event{Kind: Lost, Thread: thread, Detail: e.Message})
	l.record(func(s *state) { s.drop(thread, time.Now()) })
	return nil
}

// resume loads a thread and subscribes to it. The result has its last turn.
func (l *codexConn) resume(ctx context.Context, thread string) (r resumeResult, err error) {
	params := resumeParams{ThreadID: thread, ExcludeTurns: true,
		Page: turnsPage{Limit: 1, Direction: "desc", View: "full"}}
	l.update(func(s *state) {
		if t := s.threads[thread]; s.journal.Threads[thread] != nil && (t == nil || !t.status.Active()) {
			params.Config = s.journal.Threads[thread].Config
		}
	})
	for {
		err = l.c.Call(ctx, "thread/resume", params, &r)
		e, ok := refused(err)
		if !ok || !strings.Contains(e.Message, "is closing; retry ") || ctx.Err() != nil {
			break
		}
		pause(ctx, attempt)
	}
	if err == nil {
		l.update(func(s *state) {
			t := s.thread(thread)
			t.subscribed, t.known, t.hidden = true, true, r.Thread.Hidden()
			if t.status.Type == "" { // else the notifications have a newer state, and their order counts
				t.status = r.Thread.Status
			}
			s.signal()
		})
	}
	return r, err
}

// perform carries out the decision about one record.
func (l recovery) perform(
	ctx context.Context, thread string, r turnjournal.Record, v verdict, h history, o *outcome,
) error {
	cut := Event{Thread: thread, Turn: r.Turn}
	if v.cut && !r.Asked {
		l.emitKind(cut, Cut)
	}
	switch v.action {
	case forget:
		l.record(func(s *state) { s.drop(thread, time.Now()) })
		return nil
	case proceed:
		o.continued++
		if h.path != "" {
			l.mend(thread, h.path, v.inputs)
		}
		return l.proceed(ctx, thread, v)
	}
	if _, err := l.resume(ctx, thread); err != nil {
		return err
	}
	switch v.action {
	case adopt:
		l.record(func(s *state) { s.started(thread, h.turns[0].ID, time.Now()) })
	case ask:
		o.asked++
		l.record(func(s *state) { s.ensure(thread, r.Since).Asked = true })
		if !r.Asked && !r.Quota { // it had been asked
			l.emitKind(cut, Asked)
			l.show(ctx, thread, "This turn was cut by a restart. `codex-proxy remotes continue "+
				l.opts.Name+"` continues it.")
		}
	default:
		o.ended++
		l.record(func(s *state) {
			if v.action == giveUp {
				s.journal.GivenUp++
			}
			s.drop(thread, time.Now())
			s.other(thread, kinds["thread/shellCommand"], time.Now()) // show is one
		})
		kind, text := Left, "This turn was cut by a restart and does not go on, because of continue = \"never\" in "+
			"the remote's file."
		if v.action == giveUp {
			kind, text = LimitReached, fmt.Sprintf("This turn was cut by a restart again, after it went on %s, "+
				"as often as continue_limit in %s allows.",
				plural(r.Continued, "time"), l.opts.Settings)
		}
		l.emitKind(cut, kind)
		l.show(ctx, thread, text+" A message goes on with its work.")
	}
	return nil
}

// mend readies codex's file for the next turn. If it cannot, the turn goes on all the same.
func (l recovery) mend(thread, path string, lost []turnjournal.Input) {
	f, err := rollout.Open(l.home, path, thread, os.O_RDWR)
	if err == nil {
		defer f.Close()
		var r rollout.Rollout
		if r, err = rollout.Read(f, 1); err == nil && len(r.Turns) > 0 && r.Turns[0].Status == codexthread.Interrupted {
			l.record(func(s *state) { s.ensure(thread, time.Now()).Mended = r.Turns[0].ID })
			err = rollout.Repair(f, r, lost, time.Now())
		}
	}
	if err != nil {
		l.opts.Logger.Warn("a turn that goes on is shown as interrupted", "thread_id", thread, "error", err)
	}
}

// proceed continues the last turn of a thread, with the messages that codex has lost, or none. The attempt is in the
// turn journal before it begins.
func (l recovery) proceed(ctx context.Context, thread string, v verdict) error {
	lost := merged(v.inputs)
	l.record(func(s *state) {
		r := s.ensure(thread, time.Now())
		r.Continued++
		var newer []turnjournal.Input
		if !v.at.IsZero() {
			newer = r.InputsAfter(v.at)
		}
		// codex has the others
		r.Asked, r.Quota, r.Kind, r.Inputs = false, false, "", append(slices.Clone(lost), newer...)
	})
	if _, err := l.resume(ctx, thread); err != nil {
		return err
	}
	l.announceCheckout(ctx, thread)
	var started wire.TurnStarted
	if err := l.c.Call(ctx, "turn/start", continuation(thread, lost), &started); err != nil {
		return err
	}
	l.record(func(s *state) {
		s.started(thread, started.Turn.ID, time.Now())
		if v.cut {
			s.journal.Continued++
		}
	})
	if v.cut {
		l.emit(Event{Kind: Continued, Thread: thread, Turn: started.Turn.ID})
	}
	if n := len(v.inputs); n > 0 {
		l.emit(Event{Kind: Redelivered, Thread: thread, Turn: started.Turn.ID, Detail: plural(n, "message")})
	}
	return nil
}

// merged is one message for several, as codex takes up one at a time, and the others would be lost again; none for
// none.
func merged(lost []turnjournal.Input) []turnjournal.Input {
	if len(lost) < 2 {
		return lost
	}
	var parts []json.RawMessage
	all := turnjournal.Input{ClientID: lost[0].ClientID, At: lost[0].At, Settings: map[string]json.RawMessage{}}
	for _, i := range lost {
		var more []json.RawMessage
		if json.Unmarshal(i.Content, &more) == nil {
			parts = append(parts, more...)
		}
		maps.Copy(all.Settings, i.Settings)
		if all.With = append(all.With, i.With...); i.ClientID != all.ClientID {
			all.With = append(all.With, i.ClientID)
		}
	}
	all.Content, _ = json.Marshal(parts) // which were parsed
	return []turnjournal.Input{all}
}

// continuation is the request that continues a turn, with a message that was lost or without.
func continuation(thread string, lost []turnjournal.Input) map[string]any {
	params := map[string]any{"threadId": thread, "input": []any{}}
	for _, i := range lost {
		for name, v := range i.Settings {
			params[name] = v
		}
		params["input"] = i.Content
		if i.ClientID != "" {
			params["clientUserMessageId"] = i.ClientID
		}
	}
	return params
}
