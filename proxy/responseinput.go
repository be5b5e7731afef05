package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// newResponse finds what the request refers to. last is what a connection
// remembers of its last response; it may be nil.
func (s *Server) newResponse(ctx context.Context, x *exchange, req *openai.ResponseRequest, last *remembered) (*responding, error) {
	job := &responding{req: req, blank: req.Blank(newID("resp_"), time.Now().Unix()), store: s.Responses != nil}
	job.blank.Model = x.model // not what it is an alias of
	switch {
	case req.Store != nil && *req.Store && s.Responses == nil:
		return nil, openai.Invalid("unsupported_parameter", "store", "store must be false: this server keeps no responses (response_retention)")
	case req.Store != nil:
		job.store = *req.Store
	}
	if err := s.findHistory(ctx, x, job, last); err != nil {
		return nil, err
	}
	return job, s.findInput(ctx, x, job)
}

func (s *Server) findHistory(ctx context.Context, x *exchange, job *responding, last *remembered) (err error) {
	id := job.req.Previous
	switch {
	case id == "":
		return nil
	case last != nil && last.id == id:
		job.history, job.prefer, job.loose = last.items, last.worker, !last.stored
		if err := x.held.add(ctx, perByte*size(last.items)+heldBy(last.items)); err != nil {
			return err
		}
		if last.stored { // it may have been deleted since, or what it continues
			_, _, err = s.Responses.About(ctx, x.key, id)
		}
	case s.Responses == nil:
		return previousNotFound(id, "this server keeps no responses (response_retention)")
	default:
		err = s.readHistory(ctx, x, job)
	}
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return previousNotFound(id, "it was not stored, or its time is over")
	case errors.Is(err, stored.ErrBroken):
		return previousNotFound(id, stored.ErrBroken.Error())
	case errors.Is(err, stored.ErrTooLong):
		return tooLong("previous_response_id", "begin a new one")
	default:
		return whyEnded(ctx, err)
	}
}

func (s *Server) readHistory(ctx context.Context, x *exchange, job *responding) error {
	worker, size, err := s.Responses.About(ctx, x.key, job.req.Previous)
	if err != nil {
		return err
	}
	if err := x.held.add(ctx, perByte*size); err != nil {
		return err
	}
	history, err := s.Responses.History(ctx, x.key, job.req.Previous)
	if err != nil {
		return err
	}
	job.prefer, job.history = worker, asStored(history)
	return x.held.add(ctx, heldBy(job.history))
}

func tooLong(param, remedy string) error {
	return tooLarge(param, fmt.Sprintf("the conversation is larger than the %d bytes that a worker takes; %s", stored.MaxHistory, remedy))
}

// findInput fetches images, looks up references, and gives every item an id to
// refer to.
func (s *Server) findInput(ctx context.Context, x *exchange, job *responding) error {
	if err := s.inline(ctx, x, job.req.Images()); err != nil {
		return err
	}
	size, known := 0, make(map[string]said, len(job.history))
	for _, item := range slices.Backward(job.history) { // of two by the same id the first holds
		size, known[item.ID] = size+item.size(), item
	}
	job.input = make([]said, 0, len(job.req.Input))
	for _, in := range job.req.Input {
		if in.Reference != "" {
			item, err := s.referred(ctx, x, known, in)
			if err != nil {
				return err
			}
			if err := x.held.add(ctx, perByte*int64(item.size())+heldBy([]said{item})); err != nil {
				return err
			}
			// A reference of a few bytes stands for many, and may be repeated.
			if size += item.size(); size > stored.MaxHistory {
				return tooLong(in.At, "refer to less")
			}
			job.input, known[item.ID] = append(job.input, item), item
			continue
		}
		if in.ID == "" {
			in.ID = newID(idPrefix[in.Type])
		}
		if size += in.Size(); size > stored.MaxHistory { // nobody could continue what is stored
			return tooLong(in.At, "send less")
		}
		job.input = append(job.input, said{Item: stored.Item{ID: in.ID}, brought: &in.Item})
	}
	return nil
}

var idPrefix = map[string]string{
	"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_",
	"custom_tool_call": "ctc_", "custom_tool_call_output": "ctco_", "additional_tools": "at_", "tool_search_call": "tsc_", "tool_search_output": "tso_",
}

func (s *Server) referred(ctx context.Context, x *exchange, known map[string]said, in openai.InputItem) (said, error) {
	if item, ok := known[in.Reference]; ok {
		return item, nil
	}
	err := stored.ErrNotFound
	if s.Responses != nil {
		var item stored.Item
		if item, err = s.Responses.Item(ctx, x.key, in.Reference); err == nil {
			return said{Item: item}, nil
		}
	}
	if !errors.Is(err, stored.ErrNotFound) {
		return said{}, whyEnded(ctx, err)
	}
	return said{}, openai.Invalid("item_not_found", in.At+".id", fmt.Sprintf("%s: there is no stored item %q; send the item itself", in.At, bounded(in.Reference)))
}

// conversation is all that the model is given.
func (j *responding) conversation() []said {
	return append(append(make([]said, 0, len(j.history)+len(j.input)), j.history...), j.input...)
}
