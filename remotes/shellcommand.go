package remotes

import (
	"context"
	"errors"
	"strings"
)

// show shows a line in a thread, to all that see it now or later, without a request to the model: as the output of a
// shell command of the user, the only text that codex 0.169 takes for that. Items of thread/inject_items are for the
// model alone.
func (l *codexConn) show(ctx context.Context, thread, text string) {
	quoted := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	params := shellParams{ThreadID: thread, Command: `printf '%s\n' ` + quoted, TimeoutMs: 10_000}
	if err := l.c.Call(ctx, "thread/shellCommand", params, nil); err != nil {
		l.opts.Logger.Warn("cannot say in the thread what became of its turn", "thread_id", thread, "error", err)
	}
}

type injectParams struct {
	ThreadID string `json:"threadId"`
	Items    []any  `json:"items"`
}

// Inject adds items to the conversation of a thread, for the model to read.
func Inject(ctx context.Context, m *Manager, thread string, items []any) error {
	l, err := m.linked()
	if err != nil {
		return err
	}
	return l.inject(ctx, thread, items)
}

func (l *codexConn) inject(ctx context.Context, thread string, items []any) error {
	return l.c.Call(ctx, "thread/inject_items", injectParams{thread, items}, nil)
}

// announceCheckout has the model of a thread learn of a new checkout.
func (l *codexConn) announceCheckout(ctx context.Context, thread string) {
	if l.opts.Hands != nil {
		l.opts.Hands.Announce(ctx, thread, l.inject)
	}
}

// AnnounceCheckout has the models of all threads that run learn of a new checkout. The others do before their next
// turns.
func AnnounceCheckout(ctx context.Context, m *Manager) {
	l, err := m.linked()
	if err != nil {
		return
	}
	var threads []string
	m.update(func(s *state) {
		for id, t := range s.threads {
			if t.status.Active() && !t.hidden {
				threads = append(threads, id)
			}
		}
	})
	for _, id := range threads {
		l.announceCheckout(ctx, id)
	}
}

// RunningTurn is the turn of the model that runs in a thread; empty: none.
func RunningTurn(m *Manager, thread string) (turn string) {
	m.update(func(s *state) {
		r, t := s.journal.Threads[thread], s.threads[thread]
		if r != nil && t != nil && t.status.Active() && r.Kind == "" {
			turn = r.Turn
		}
	})
	return turn
}

// Changes has the changes of the workspace printed by the hands.
func Changes(ctx context.Context, m *Manager, begin bool) (stdout, stderr []byte, err error) {
	if m.opts.Hands == nil {
		return nil, nil, errors.New("the remote has no [hands]")
	}
	return m.opts.Hands.Changes(ctx, begin)
}
