package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"codex-proxy/codex/wire"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/remoteapi"
)

const (
	// actBound bounds an order; a remote that is asleep starts meanwhile.
	actBound = 2 * time.Minute
	// askedBound is how long a remote may take to repeat its questions to a new client.
	askedBound = 10 * time.Second
	// askedPause is how long after one question the next one of a turn may come: codex repeats one after the other.
	askedPause = 300 * time.Millisecond
)

// Send sends a message to a thread, or to the last one, and returns the thread.
func (r Remote) Send(ctx context.Context, thread, text string) (threadID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, actBound)
	defer cancel()
	return remoteapi.SendAs(ctx, r.Owners, r.header(authz.Owner), thread, text)
}

// errOver is the error of an answer that nobody waits for any more.
var errOver = errors.New("the turn does not wait for this any more: it was answered, or has ended")

// Approve answers a question of a thread: the one with all that its ID stands for, and no other of the same item. A
// person from afar may be away again when it has: that one is attached as a page, so that others are still called.
func (r Remote) Approve(ctx context.Context, thread, question, decision string) error {
	ctx, cancel := context.WithTimeout(ctx, actBound)
	defer cancel()
	thread, err := r.last(ctx, thread)
	if err != nil {
		return err
	}
	if r.Key != "" {
		r.program = remotes.Page
	}
	v, resolved := newView(thread), make(chan string, maxItems)
	s, err := r.open(ctx, authz.Owner, handlers{
		asked: v.ask,
		notified: func(method string, params json.RawMessage) {
			v.notified(method, params)
			if id, of := resolvedBy(method, params); id != "" && of == thread {
				select {
				case resolved <- id:
				default: // far more than a turn asks
				}
			}
		},
	})
	if err != nil {
		return err
	}
	defer s.end()
	at, err := s.resume(ctx, thread, 1)
	if err != nil {
		return err
	}
	if !at.Thread.Status.Waiting() {
		return errOver
	}
	v.begin(at)
	late := time.NewTimer(askedBound)
	defer late.Stop()
	for {
		if a, is := v.find(question); is {
			return s.answer(ctx, a, decision, resolved)
		}
		select {
		case <-v.changed:
		case <-late.C:
			return errOver
		case <-s.Done():
			return s.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Asked are the questions that the turn of a thread waits for now; none if it does not wait. It is attached as a page
// meanwhile, so that others are still called.
func (r Remote) Asked(ctx context.Context, thread string) ([]Question, error) {
	ctx, cancel := context.WithTimeout(ctx, askedBound)
	defer cancel()
	r.program = remotes.Page
	v := newView(thread)
	s, err := r.open(ctx, authz.Owner, handlers{asked: v.ask, notified: v.notified})
	if err != nil {
		return nil, err
	}
	defer s.end()
	at, err := s.resume(ctx, thread, 1)
	if err != nil || !at.Thread.Status.Waiting() {
		return nil, err
	}
	v.begin(at)
	questions, complete := v.repeated(ctx, s.Done())
	switch {
	case complete:
		return questions, nil
	case ctx.Err() != nil:
		return nil, errors.New("codex has not repeated its question")
	}
	return nil, s.Err()
}

// answer returns when codex has taken the answer.
func (s *session) answer(ctx context.Context, a asked, decision string, resolved <-chan string) error {
	if !slices.Contains(a.Decisions, decision) {
		return fmt.Errorf("%s is no answer to this here; a terminal has all of them: codex-proxy attach", decision)
	}
	if err := s.Reply(a.id, map[string]string{"decision": decision}); err != nil {
		return err
	}
	for {
		select {
		case id := <-resolved:
			if id == string(a.id) {
				return nil
			}
		case <-s.Done():
			return s.Err()
		case <-ctx.Done():
			return fmt.Errorf("codex has not taken the answer: %w", ctx.Err())
		}
	}
}

// Interrupt ends the turn of a thread, as Esc does in a terminal.
func (r Remote) Interrupt(ctx context.Context, thread string) error {
	ctx, cancel := context.WithTimeout(ctx, actBound)
	defer cancel()
	thread, err := r.last(ctx, thread)
	if err != nil {
		return err
	}
	s, err := r.open(ctx, authz.Owner, handlers{})
	if err != nil {
		return err
	}
	defer s.end()
	at, err := s.resume(ctx, thread, 1)
	if err != nil {
		return err
	}
	turn := at.running()
	if turn == "" {
		return errors.New("no turn of the thread runs")
	}
	var result json.RawMessage
	return s.Call(ctx, "turn/interrupt", wire.TurnInterrupt{ThreadID: thread, TurnID: turn}, &result)
}
