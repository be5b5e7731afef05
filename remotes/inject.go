package remotes

import "context"

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
