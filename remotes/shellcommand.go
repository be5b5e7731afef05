package remotes

import (
	"context"
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
