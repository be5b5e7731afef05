package jobs

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
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/turn"
)

// Finder finds all that requests refer to. It is safe for concurrent use.
type Finder struct {
	Admission *admission.Controller
	Turns     *turn.Runner
	Store     stored.Store                                     // nil: none is kept
	InFlight  func(ctx context.Context, owner, id string) bool // whether a background response has not ended
}

// New finds everything that the request refers to, and claims its conversation: Close must be called at the end of
// the response. last is the last response of a connection; it may be nil.
func (f *Finder) New(ctx context.Context, x *proxy.Exchange, req *wire.Request,
	last *Remembered) (*Job, error) {
	return f.Find(ctx, x, req.Blank(proxy.NewID("resp_"), time.Now().Unix()), req, last, true)
}

// Find is newJob for a response that may have begun, and that may leave its conversation to others.
func (f *Finder) Find(ctx context.Context, x *proxy.Exchange, blank wire.Response, req *wire.Request,
	last *Remembered, claims bool) (*Job, error) {
	job := &Job{claims: claims, Req: req, Blank: blank, Store: f.Store != nil}
	job.Blank.Model = x.Model // the client's name, also of an alias
	switch {
	case req.Store != nil && *req.Store && f.Store == nil:
		return nil, openai.Invalid("unsupported_parameter", "store",
			"store must be false: this server keeps no responses (response_retention)")
	case req.Store != nil:
		job.Store = *req.Store
	}
	job.Blank.Store = job.Store
	err := f.findHistory(ctx, x, job, last)
	if err == nil {
		err = f.findInput(ctx, x, job)
	}
	if err != nil {
		f.Close(job)
		return nil, err
	}
	return job, nil
}

func (f *Finder) findHistory(ctx context.Context, x *proxy.Exchange, job *Job, last *Remembered) (err error) {
	id := job.Req.Previous
	switch {
	case job.Req.Conversation != "":
		return f.findConversation(ctx, x, job)
	case id == "":
		return nil
	case last != nil && last.ID == id:
		job.History, job.Prefer, job.Loose, job.Opening = last.Items, last.Worker, !last.Stored, &last.Opening
		if err := x.Grant.Body.Add(ctx, limits.PerByte*plan.Size(last.Items)+plan.Weight(last.Items)); err != nil {
			return err
		}
		if last.Stored { // it may have been deleted since, or a response before it
			_, _, err = f.Store.About(ctx, x.Key.Name, id)
		}
	case f.Store == nil:
		return previousNotFound(id, "this server keeps no responses (response_retention)")
	default:
		err = f.readHistory(ctx, x, job)
	}
	switch {
	case errors.Is(err, stored.ErrNotFound) && f.InFlight(ctx, x.Key.Name, id):
		return previousNotFound(id, "it has not ended")
	case errors.Is(err, stored.ErrNotFound):
		return previousNotFound(id, "it was not stored, or its time is over")
	case errors.Is(err, stored.ErrBroken):
		return previousNotFound(id, stored.ErrBroken.Error())
	case errors.Is(err, stored.ErrTooLong):
		return TooLong("previous_response_id", "begin a new one")
	default:
		return cause.Of(ctx, err)
	}
}

func (f *Finder) readHistory(ctx context.Context, x *proxy.Exchange, job *Job) error {
	worker, size, err := f.Store.About(ctx, x.Key.Name, job.Req.Previous)
	if err != nil {
		return err
	}
	if err := x.Grant.Body.Add(ctx, limits.PerByte*size); err != nil {
		return err
	}
	history, err := f.Store.History(ctx, x.Key.Name, job.Req.Previous)
	if err != nil {
		return err
	}
	job.Prefer, job.History = worker, plan.FromStore(history)
	if err := x.Grant.Body.Add(ctx, plan.Weight(job.History)); err != nil || !f.Turns.Rotates() {
		return err
	}
	return f.readOpening(ctx, x, job)
}

// readOpening reads the instructions of the first response: later ones may have others.
func (f *Finder) readOpening(ctx context.Context, x *proxy.Exchange, job *Job) error {
	root, err := f.Store.Root(ctx, x.Key.Name, job.Req.Previous)
	if err != nil || root == nil {
		return err
	}
	var first struct{ Instructions string }
	if err := json.Unmarshal(root, &first); err != nil {
		return fmt.Errorf("cannot read a stored response: %w", err)
	}
	job.Opening = &first.Instructions
	return nil
}

// TooLong is the error of a conversation that is too long for a worker; param names the conversation.
func TooLong(param, remedy string) error {
	return openai.TooLarge(param,
		fmt.Sprintf("the conversation is larger than the %d bytes that a worker takes; %s", stored.MaxHistory, remedy))
}

// findInput fetches images, looks up references, and gives every item an id to
// refer to.
func (f *Finder) findInput(ctx context.Context, x *proxy.Exchange, job *Job) error {
	if err := f.Admission.Inline(ctx, x, job.Req.Images()); err != nil {
		return err
	}
	size, known := 0, make(map[string]plan.Item, len(job.History))
	for _, i := range slices.Backward(job.History) { // of two with the same id the first holds
		size, known[i.ID] = size+i.Size(), i
	}
	job.Input = make([]plan.Item, 0, len(job.Req.Input))
	for _, in := range job.Req.Input {
		if in.Reference != "" {
			i, err := f.referred(ctx, x, known, in)
			if err != nil {
				return err
			}
			if err := x.Grant.Body.Add(ctx, limits.PerByte*int64(i.Size())+plan.Weight([]plan.Item{i})); err != nil {
				return err
			}
			// A reference of a few bytes stands for many, and may be repeated.
			if size += i.Size(); size > stored.MaxHistory {
				return TooLong(in.At, "refer to less")
			}
			if i, err = job.join(known, i, in); err != nil {
				return err
			}
			job.Input, known[i.ID] = append(job.Input, i), i
			continue
		}
		if in.ID == "" {
			in.ID = proxy.NewID(in.IDPrefix())
		}
		if size += in.Size(); size > stored.MaxHistory { // a stored response of that size could not be continued
			return TooLong(in.At, "send less")
		}
		i, err := job.join(known, plan.Item{Item: stored.Item{ID: in.ID}, Decoded: &in.Item}, in)
		if err != nil {
			return err
		}
		job.Input = append(job.Input, i)
	}
	return nil
}

func (f *Finder) referred(ctx context.Context, x *proxy.Exchange, known map[string]plan.Item,
	in wire.InputItem) (plan.Item, error) {
	if i, ok := known[in.Reference]; ok {
		return i, nil
	}
	err := stored.ErrNotFound
	if f.Store != nil {
		var i stored.Item
		if i, err = f.Store.Item(ctx, x.Key.Name, in.Reference); err == nil {
			return plan.Item{Item: i}, nil
		}
	}
	if !errors.Is(err, stored.ErrNotFound) {
		return plan.Item{}, cause.Of(ctx, err)
	}
	return plan.Item{}, openai.Invalid("item_not_found", in.At+".id",
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
