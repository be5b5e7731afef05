package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// job is the request of a response, with everything that it refers to.
type job struct {
	req     *openai.ResponseRequest
	blank   openai.Response
	history []item // before the input
	input   []item
	loose   bool // the history is not stored
	store   bool
	recall  bool    // the connection remembers the response
	prefer  string  // the worker of the last answer
	opening *string // the instructions with which the conversation began; nil: the ones of req
	claims  bool    // it is to have the conversation of req
	claimed bool    // it has it
}

// kept reports whether a client may refer to the response, or to its conversation, later.
func (j *job) kept() bool { return j.store || j.recall || j.claimed }

// begunWith are the instructions with which the conversation began.
func (j *job) begunWith() string {
	switch {
	case j.opening != nil:
		return *j.opening
	case j.req.Instructions != nil:
		return *j.req.Instructions
	}
	return ""
}

// conversation is all that the model gets.
func (j *job) conversation() []item {
	return append(append(make([]item, 0, len(j.history)+len(j.input)), j.history...), j.input...)
}

// newJob finds everything that the request refers to, and claims its conversation: close must be called at the end of
// the response. last is the last response of a connection; it may be nil.
func (e *Endpoint) newJob(ctx context.Context, x *proxy.Exchange, req *openai.ResponseRequest,
	last *remembered) (*job, error) {
	return e.find(ctx, x, req.Blank(proxy.NewID("resp_"), time.Now().Unix()), req, last, true)
}

// find is newJob for a response that may have begun, and that may leave its conversation to others.
func (e *Endpoint) find(ctx context.Context, x *proxy.Exchange, blank openai.Response, req *openai.ResponseRequest,
	last *remembered, claims bool) (*job, error) {
	job := &job{claims: claims, req: req, blank: blank, store: e.Store != nil}
	job.blank.Model = x.Model // the client's name, also of an alias
	switch {
	case req.Store != nil && *req.Store && e.Store == nil:
		return nil, openai.Invalid("unsupported_parameter", "store",
			"store must be false: this server keeps no responses (response_retention)")
	case req.Store != nil:
		job.store = *req.Store
	}
	job.blank.Store = job.store
	err := e.findHistory(ctx, x, job, last)
	if err == nil {
		err = e.findInput(ctx, x, job)
	}
	if err != nil {
		e.close(job)
		return nil, err
	}
	return job, nil
}

func (e *Endpoint) findHistory(ctx context.Context, x *proxy.Exchange, job *job, last *remembered) (err error) {
	id := job.req.Previous
	switch {
	case job.req.Conversation != "":
		return e.findConversation(ctx, x, job)
	case id == "":
		return nil
	case last != nil && last.id == id:
		job.history, job.prefer, job.loose, job.opening = last.items, last.worker, !last.stored, &last.opening
		if err := x.Grant.Body.Add(ctx, limits.PerByte*size(last.items)+weight(last.items)); err != nil {
			return err
		}
		if last.stored { // it may have been deleted since, or a response before it
			_, _, err = e.Store.About(ctx, x.Key.Name, id)
		}
	case e.Store == nil:
		return previousNotFound(id, "this server keeps no responses (response_retention)")
	default:
		err = e.readHistory(ctx, x, job)
	}
	switch {
	case errors.Is(err, stored.ErrNotFound) && e.isInFlight(ctx, x.Key.Name, id):
		return previousNotFound(id, "it has not ended")
	case errors.Is(err, stored.ErrNotFound):
		return previousNotFound(id, "it was not stored, or its time is over")
	case errors.Is(err, stored.ErrBroken):
		return previousNotFound(id, stored.ErrBroken.Error())
	case errors.Is(err, stored.ErrTooLong):
		return tooLong("previous_response_id", "begin a new one")
	default:
		return cause.Of(ctx, err)
	}
}

func (e *Endpoint) readHistory(ctx context.Context, x *proxy.Exchange, job *job) error {
	worker, size, err := e.Store.About(ctx, x.Key.Name, job.req.Previous)
	if err != nil {
		return err
	}
	if err := x.Grant.Body.Add(ctx, limits.PerByte*size); err != nil {
		return err
	}
	history, err := e.Store.History(ctx, x.Key.Name, job.req.Previous)
	if err != nil {
		return err
	}
	job.prefer, job.history = worker, fromStore(history)
	if err := x.Grant.Body.Add(ctx, weight(job.history)); err != nil || !e.Turns.Rotates() {
		return err
	}
	return e.readOpening(ctx, x, job)
}

// readOpening reads the instructions of the first response: later ones may have others.
func (e *Endpoint) readOpening(ctx context.Context, x *proxy.Exchange, job *job) error {
	root, err := e.Store.Root(ctx, x.Key.Name, job.req.Previous)
	if err != nil || root == nil {
		return err
	}
	var first struct{ Instructions string }
	if err := json.Unmarshal(root, &first); err != nil {
		return fmt.Errorf("cannot read a stored response: %w", err)
	}
	job.opening = &first.Instructions
	return nil
}

func tooLong(param, remedy string) error {
	return openai.TooLarge(param,
		fmt.Sprintf("the conversation is larger than the %d bytes that a worker takes; %s", stored.MaxHistory, remedy))
}

// findInput fetches images, looks up references, and gives every item an id to
// refer to.
func (e *Endpoint) findInput(ctx context.Context, x *proxy.Exchange, job *job) error {
	if err := e.Intake.Inline(ctx, x, job.req.Images()); err != nil {
		return err
	}
	size, known := 0, make(map[string]item, len(job.history))
	for _, i := range slices.Backward(job.history) { // of two with the same id the first holds
		size, known[i.ID] = size+i.size(), i
	}
	job.input = make([]item, 0, len(job.req.Input))
	for _, in := range job.req.Input {
		if in.Reference != "" {
			i, err := e.referred(ctx, x, known, in)
			if err != nil {
				return err
			}
			if err := x.Grant.Body.Add(ctx, limits.PerByte*int64(i.size())+weight([]item{i})); err != nil {
				return err
			}
			// A reference of a few bytes stands for many, and may be repeated.
			if size += i.size(); size > stored.MaxHistory {
				return tooLong(in.At, "refer to less")
			}
			if i, err = job.join(known, i, in); err != nil {
				return err
			}
			job.input, known[i.ID] = append(job.input, i), i
			continue
		}
		if in.ID == "" {
			in.ID = proxy.NewID(in.IDPrefix())
		}
		if size += in.Size(); size > stored.MaxHistory { // a stored response of that size could not be continued
			return tooLong(in.At, "send less")
		}
		i, err := job.join(known, item{Item: stored.Item{ID: in.ID}, decoded: &in.Item}, in)
		if err != nil {
			return err
		}
		job.input = append(job.input, i)
	}
	return nil
}

func (e *Endpoint) referred(ctx context.Context, x *proxy.Exchange, known map[string]item,
	in openai.InputItem) (item, error) {
	if i, ok := known[in.Reference]; ok {
		return i, nil
	}
	err := stored.ErrNotFound
	if e.Store != nil {
		var i stored.Item
		if i, err = e.Store.Item(ctx, x.Key.Name, in.Reference); err == nil {
			return item{Item: i}, nil
		}
	}
	if !errors.Is(err, stored.ErrNotFound) {
		return item{}, cause.Of(ctx, err)
	}
	return item{}, openai.Invalid("item_not_found", in.At+".id",
		fmt.Sprintf("%s: there is no stored item %q; send the item itself", in.At, openai.Bounded(in.Reference)))
}

// previousNotFound is OpenAI's answer to a previous_response_id that leads nowhere.
func previousNotFound(id, why string) error {
	return &openai.Error{
		Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest,
		Code: "previous_response_not_found", Param: "previous_response_id",
		Message: fmt.Sprintf("previous response %q not found: %s; send the whole conversation as input",
			openai.Bounded(id), why),
	}
}
