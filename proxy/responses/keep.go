package responses

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// storeTimeout bounds the storing of a response, which must not delay its end for longer
// than SQLite waits for another writer.
const storeTimeout = 8 * time.Second

// made is a response at its end.
type made struct {
	*Endpoint
	x        *proxy.Exchange
	job      *jobs.Job
	response wire.Response
	output   []plan.Item // all of it
	extends  bool        // it becomes part of its conversation
}

func (s *response) made() *made {
	last := s.builder.Response()
	return &made{
		Endpoint: s.Endpoint, x: s.x, job: s.job, response: last,
		output:  plan.OutputItems(s.builder.FullOutput(), s.x.Turn.Worker),
		extends: s.job.Claimed && jobs.Extends(last.Status),
	}
}

// keep stores the response before a client can refer to it, and extends its conversation. A response that cannot be
// stored is still answered, and cannot be referred to later; on its connection it can, unless the response that it
// continues was deleted meanwhile. The error means that its conversation lacks it.
func (m *made) keep(ctx context.Context) (*jobs.Remembered, error) {
	kept := &jobs.Remembered{
		ID: m.response.ID, Worker: m.x.Turn.Worker, Opening: m.job.BegunWith(),
		Items: append(m.job.Conversation(), m.output...),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var err error
	switch {
	case m.job.Store:
		err = m.store(ctx)
		kept.Stored = err == nil
	case m.extends:
		err = m.extend(ctx)
	default:
		m.renew(ctx)
	}
	if err != nil && !errors.Is(err, stored.ErrUnavailable) { // the store logs that by itself
		m.Server.Logger.Error("a response is not stored",
			"request_id", m.x.ID, "response_id", m.response.ID, "error", err)
	}
	if errors.Is(err, stored.ErrNotFound) || errors.Is(err, stored.ErrBroken) {
		return nil, nil
	}
	if err != nil && m.extends {
		return nil, notExtended(err)
	}
	return kept, nil
}

// extend adds a response that is not stored to its conversation.
func (m *made) extend(ctx context.Context) error {
	items, err := plan.ToStore(append(slices.Clone(m.job.Input), m.output...))
	if err != nil {
		return err
	}
	return m.Store.Extend(ctx, m.x.Key.Name, m.job.Req.Conversation, m.x.Turn.Worker, items)
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
func (m *made) renew(ctx context.Context) {
	previous := m.job.Req.Previous
	if previous == "" || m.job.Loose {
		return
	}
	if err := m.Store.Renew(ctx, m.x.Key.Name, previous); err != nil {
		m.Server.Logger.Error("a response that was continued may go sooner than it should",
			"request_id", m.x.ID, "response_id", previous, "error", err)
	}
}

func (m *made) store(ctx context.Context) error {
	r, err := m.toStore()
	if err != nil {
		return err
	}
	err = m.Store.Put(ctx, r)
	if errors.Is(err, stored.ErrApart) {
		r.Previous = ""
		if r.Input, err = plan.ToStore(m.job.Conversation()); err == nil {
			err = m.Store.Put(ctx, r)
		}
	}
	return err
}

// toStore returns the response as it is stored.
func (m *made) toStore() (r stored.Response, err error) {
	r = stored.Response{ID: m.response.ID, Owner: m.x.Key.Name, Worker: m.x.Turn.Worker}
	r.Conversation, r.Extends = m.job.Req.Conversation, m.extends
	input := m.job.Input
	if r.Previous = m.job.Req.Previous; m.job.Loose { // the store does not have the history
		r.Previous, input = "", m.job.Conversation()
	}
	if r.Object, err = openai.Encode(m.response); err != nil {
		return r, err
	}
	if r.Input, err = plan.ToStore(input); err != nil {
		return r, err
	}
	r.Output, err = plan.ToStore(m.output)
	return r, err
}
