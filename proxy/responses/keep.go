package responses

import (
	"context"
	"errors"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// storeTimeout bounds the storing of a response, which must not delay its end for longer
// than SQLite waits for another writer.
const storeTimeout = 8 * time.Second

// remembered is what a connection knows of its last response, stored or not.
type remembered struct {
	id, worker string
	opening    string // the instructions with which the conversation began
	items      []item // the whole conversation
	stored     bool
}

// keep stores the response before a client can refer to it. A response that cannot be
// stored is still answered, and cannot be referred to later; on its connection it can,
// unless the response that it continues was deleted meanwhile.
func (s *response) keep(ctx context.Context) *remembered {
	response, x := s.builder.Response(), s.x
	output := outputItems(s.builder.FullOutput(), x.Turn.Worker)
	kept := &remembered{
		id: response.ID, worker: x.Turn.Worker, opening: s.job.begunWith(),
		items: append(s.job.conversation(), output...),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if !s.job.store {
		s.renew(ctx)
		return kept
	}
	err := s.store(ctx, response, output)
	kept.stored = err == nil
	if err != nil && !errors.Is(err, stored.ErrUnavailable) { // the store logs that by itself
		s.Server.Logger.Error("a response is not stored", "request_id", x.ID, "response_id", response.ID, "error", err)
	}
	if errors.Is(err, stored.ErrNotFound) || errors.Is(err, stored.ErrBroken) {
		return nil
	}
	return kept
}

// renew records that the history was used, although the response is not stored after it.
func (s *response) renew(ctx context.Context) {
	previous := s.job.req.Previous
	if previous == "" || s.job.loose {
		return
	}
	if err := s.Store.Renew(ctx, s.x.Key.Name, previous); err != nil {
		s.Server.Logger.Error("a response that was continued may go sooner than it should",
			"request_id", s.x.ID, "response_id", previous, "error", err)
	}
}

func (s *response) store(ctx context.Context, response openai.Response, output []item) (err error) {
	r := stored.Response{ID: response.ID, Owner: s.x.Key.Name, Worker: s.x.Turn.Worker}
	input := s.job.input
	if r.Previous = s.job.req.Previous; s.job.loose { // the store does not have the history
		r.Previous, input = "", s.job.conversation()
	}
	if r.Object, err = openai.Encode(response); err != nil {
		return err
	}
	if r.Input, err = toStore(input); err != nil {
		return err
	}
	if r.Output, err = toStore(output); err != nil {
		return err
	}
	return s.Store.Put(ctx, r)
}
