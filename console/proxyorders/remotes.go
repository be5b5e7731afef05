package proxyorders

import (
	"context"

	"codex-proxy/console/verbs"
)

// threadOf is the answer to an order for a thread of a remote.
type threadOf struct {
	Thread string `json:"thread,omitempty"`
}

// remotes are the verbs for the remotes. Their words, and the thread, are in no log.
func (s Settings) remotes() map[string]verbs.Verb {
	return map[string]verbs.Verb{
		"transcript": {Words: words{"remote": verbs.Name, "thread": thread}, Needs: []string{"remote"},
			Run: func(ctx context.Context, w verbs.Words, send verbs.Send) (any, error) {
				r, err := s.Remote(w["remote"])
				if err != nil {
					return nil, err
				}
				return nil, r.Follow(ctx, w["thread"], send)
			}},
		"send": s.part(words{"text": verbs.Text}, []string{"text"},
			func(ctx context.Context, r Remote, w verbs.Words) (string, error) {
				return r.Send(ctx, w["thread"], w["text"])
			}),
		"approve": s.part(words{"question": question, "decision": decision}, []string{"thread", "question", "decision"},
			func(ctx context.Context, r Remote, w verbs.Words) (string, error) {
				return w["thread"], r.Approve(ctx, w["thread"], w["question"], w["decision"])
			}),
		"interrupt": s.part(words{}, []string{"thread"},
			func(ctx context.Context, r Remote, w verbs.Words) (string, error) {
				return w["thread"], r.Interrupt(ctx, w["thread"])
			}),
	}
}

// part is a verb by which a person takes part in a remote. It goes on when the page is closed.
func (s Settings) part(more words, needs []string,
	do func(context.Context, Remote, verbs.Words) (string, error)) verbs.Verb {
	more["remote"], more["thread"] = verbs.Name, thread
	return verbs.Verb{Changes: true, Words: more, Needs: append([]string{"remote"}, needs...),
		Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
			r, err := s.Remote(w["remote"])
			if err != nil {
				return nil, err
			}
			id, err := do(context.WithoutCancel(ctx), r, w)
			return threadOf{id}, err
		}}
}
