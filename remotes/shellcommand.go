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
	return l.c.Call(ctx, "thread/inject_items", injectParams{thread, items}, nil)
}

// Changes has the changes of the workspace printed by the hands.
func Changes(ctx context.Context, m *Manager, begin bool) (stdout, stderr []byte, err error) {
	if m.opts.Hands == nil {
		return nil, nil, errors.New("the remote has no [hands]")
	}
	return m.opts.Hands.Changes(ctx, begin)
}
