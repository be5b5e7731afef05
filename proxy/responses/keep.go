package responses

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// storeTimeout bounds the storing of a response, which must not delay its end for longer
// than SQLite waits for another writer.
const storeTimeout = 8 * time.Second

// remembered is the last response of a connection, stored or not.
type remembered struct {
	id, worker string
	opening    string // the instructions with which the conversation began
	items      []item // the whole conversation
	stored     bool
}

// keep stores the response before a client can refer to it, and extends its conversation. A response that cannot be
// stored is still answered, and cannot be referred to later; on its connection it can, unless the response that it
// continues was deleted meanwhile. The error means that its conversation lacks it.
func (s *response) keep(ctx context.Context) (*remembered, error) {
	response, x := s.builder.Response(), s.x
	output := outputItems(s.builder.FullOutput(), x.Turn.Worker)
	kept := &remembered{
		id: response.ID, worker: x.Turn.Worker, opening: s.job.begunWith(),
		items: append(s.job.conversation(), output...),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	extends := s.job.claimed && extends(response.Status)
	var err error
	switch {
	case s.job.store:
		err = s.store(ctx, response, output, extends)
		kept.stored = err == nil
	case extends:
		err = s.extend(ctx, output)
	default:
		s.renew(ctx)
	}
	if err != nil && !errors.Is(err, stored.ErrUnavailable) { // the store logs that by itself
		s.Server.Logger.Error("a response is not stored", "request_id", x.ID, "response_id", response.ID, "error", err)
	}
	if errors.Is(err, stored.ErrNotFound) || errors.Is(err, stored.ErrBroken) {
		return nil, nil
	}
	if err != nil && extends {
		return nil, notExtended(err)
	}
	return kept, nil
}

// extend adds a response that is not stored to its conversation.
func (s *response) extend(ctx context.Context, output []item) error {
	items, err := toStore(append(slices.Clone(s.job.input), output...))
	if err != nil {
		return err
	}
	return s.Store.Extend(ctx, s.x.Key.Name, s.job.req.Conversation, s.x.Turn.Worker, items)
}

// notExtended is the error of a response that is missing in its conversation: the next response would lack it.
func notExtended(err error) error {
	why := "it cannot be stored just now; the journal has the reason"
	if errors.Is(err, stored.ErrNoRoom) {
		why = "it is too large for response_storage; begin a new conversation"
	}
	return &openai.Error{
		Status: http.StatusInternalServerError, Type: openai.TypeServer, Code: "conversation_not_extended",
		Param: "conversation", Message: "the answer is not part of the conversation: " + why,
	}
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

func (s *response) store(ctx context.Context, response openai.Response, output []item, extends bool) error {
	r, err := s.toStore(response, output, extends)
	if err != nil {
		return err
	}
	return s.Store.Put(ctx, r)
}

// toStore returns the response as it is stored. extends adds it to its conversation.
func (s *response) toStore(response openai.Response, output []item, extends bool) (r stored.Response, err error) {
	r = stored.Response{ID: response.ID, Owner: s.x.Key.Name, Worker: s.x.Turn.Worker}
	r.Conversation, r.Extends = s.job.req.Conversation, extends
	input := s.job.input
	if r.Previous = s.job.req.Previous; s.job.loose { // the store does not have the history
		r.Previous, input = "", s.job.conversation()
	}
	if r.Object, err = openai.Encode(response); err != nil {
		return r, err
	}
	if r.Input, err = toStore(input); err != nil {
		return r, err
	}
	r.Output, err = toStore(output)
	return r, err
}
