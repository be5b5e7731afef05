package proxyorders

import (
	"context"
	"maps"

	"codex-proxy/console/verbs"
)

// The change of a key goes on when the page is closed, as half of it may be done.

func (s Settings) revoke(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
	return s.RevokeKey(context.WithoutCancel(ctx), w["key"])
}

func (s Settings) add(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
	limits := maps.Clone(w)
	delete(limits, "key")
	made, err := s.AddKey(context.WithoutCancel(ctx), w["key"], limits)
	if made.Key == "" {
		return nil, err
	}
	if err != nil { // nobody could show the key again
		made.Outcome = err.Error()
	}
	return made, nil
}
