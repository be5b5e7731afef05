package remotes

import (
	"context"
	"errors"
)

type injectParams struct {
	ThreadID string `json:"threadId"`
	Items    []any  `json:"items"`
}

// Inject adds items to the conversation of a thread, for the model to read.
func (m *Manager) Inject(ctx context.Context, thread string, items []any) error {
	l, err := m.linked()
	if err != nil {
		return err
	}
	return l.c.Call(ctx, "thread/inject_items", injectParams{thread, items}, nil)
}

// Changes has the changes of the workspace printed by the hands.
func (m *Manager) Changes(ctx context.Context, begin bool) (stdout, stderr []byte, err error) {
	if m.opts.Hands == nil {
		return nil, nil, errors.New("the remote has no [hands]")
	}
	return m.opts.Hands.Changes(ctx, begin)
}
