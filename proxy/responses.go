package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/workers"
)

// storeTimeout bounds the storing of a response, which must not hold up its
// end for longer than SQLite waits for another writer.
const storeTimeout = 8 * time.Second

// errCancelled ends a response that a client has cancelled.
var errCancelled = errors.New("the response was cancelled")

// responding is a response in the making.
type responding struct {
	req     *openai.ResponseRequest
	blank   openai.Response
	history []stored.Item // what came before the input
	input   []stored.Item
	loose   bool // the history is not stored
	store   bool
	prefer  string // the worker that answered last
}

// remembered is what a connection knows of its last response, stored or not.
type remembered struct {
	id, worker string
	items      []stored.Item // the whole conversation
	stored     bool
}

// delivery is how a response leaves: as events, or as a whole.
type delivery struct {
	send    func([]openai.ResponseEvent) error // as they come; nothing may be in it
	silence func() error                       // nil: silence is not to be broken
	begun   func() bool                        // something has left
	end     func([]openai.ResponseEvent, openai.Response) error
}

// createResponse serves POST /v1/responses.
func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	req, err := openai.DecodeResponse(body)
	if err != nil {
		return err
	}
	x := exchangeOf(r)
	x.model, x.stream = req.Model, req.Stream
	if req.Model, req.Reasoning.Effort, err = s.limit(x, req.Model, req.Reasoning.Effort); err != nil {
		return err
	}
	if len(req.Ignored) > 0 {
		w.Header().Set("X-Codex-Ignored-Params", strings.Join(req.Ignored, ", "))
	}
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	job, err := s.newResponse(ctx, x, req, nil)
	if err != nil {
		return err
	}
	r = r.WithContext(ctx)
	out := s.wholeResponse(w)
	if req.Stream {
		s.metrics.streams.Inc()
		defer s.metrics.streams.Dec()
		out = s.streamedResponse(w, r)
	}
	_, err = s.respond(w, r, x, job, out)
	return err
}

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
		return nil
	case s.Responses == nil:
		return previousNotFound(id, "this server keeps no responses (response_retention)")
	}
	job.history, err = s.Responses.History(ctx, x.key, id)
	switch {
	case err == nil:
		job.prefer, err = s.Responses.Worker(ctx, x.key, id)
		return err
	case errors.Is(err, stored.ErrNotFound):
		return previousNotFound(id, "it was not stored, or its time is over")
	case errors.Is(err, stored.ErrBroken):
		return previousNotFound(id, stored.ErrBroken.Error())
	case errors.Is(err, stored.ErrTooLong):
		return &openai.Error{
			Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "request_too_large", Param: "previous_response_id",
			Message: "the conversation is larger than any worker takes; begin a new one",
		}
	default:
		return err
	}
}

// findInput fetches images, looks up references, and gives every item an id to
// refer to.
func (s *Server) findInput(ctx context.Context, x *exchange, job *responding) error {
	var pictures []picture
	for _, placed := range job.req.Images() {
		pictures = append(pictures, picture{placed.At, placed.Image})
	}
	if err := s.inline(ctx, pictures); err != nil {
		return err
	}
	for _, in := range job.req.Input {
		if in.Reference != "" {
			item, err := s.referred(ctx, x, job, in)
			if err != nil {
				return err
			}
			job.input = append(job.input, item)
			continue
		}
		if in.ID == "" {
			in.ID = newID(idPrefix[in.Type])
		}
		data, err := json.Marshal(in.Item)
		if err != nil {
			return fmt.Errorf("cannot encode %s: %w", in.At, err)
		}
		job.input = append(job.input, stored.Item{ID: in.ID, JSON: data})
	}
	return nil
}

var idPrefix = map[string]string{
	"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_",
	"custom_tool_call": "ctc_", "custom_tool_call_output": "ctco_",
}

func (s *Server) referred(ctx context.Context, x *exchange, job *responding, in openai.InputItem) (stored.Item, error) {
	for _, item := range job.history {
		if item.ID == in.Reference {
			return item, nil
		}
	}
	err := stored.ErrNotFound
	if s.Responses != nil {
		var item stored.Item
		if item, err = s.Responses.Item(ctx, x.key, in.Reference); err == nil {
			return item, nil
		}
	}
	if !errors.Is(err, stored.ErrNotFound) {
		return stored.Item{}, err
	}
	return stored.Item{}, openai.Invalid("item_not_found", in.At+".id", fmt.Sprintf("%s: there is no stored item %q; send the item itself", in.At, bounded(in.Reference)))
}

// conversation is all that the model is given.
func (j *responding) conversation() []stored.Item {
	return append(append(make([]stored.Item, 0, len(j.history)+len(j.input)), j.history...), j.input...)
}

// toStore are the response that the store is to put this one behind, and the
// input without what stands there.
func (j *responding) toStore() (previous string, input []stored.Item) {
	if j.loose {
		return "", j.conversation()
	}
	return j.req.Previous, j.input
}

// respond runs the turn of a response. While that can still be lost and run
// again, nothing is sent. It returns what is to be remembered of the response,
// nil if that did not come to an end.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, x *exchange, job *responding, out delivery) (kept *remembered, err error) {
	request, origin, err := planResponse(job.req, job.conversation())
	if err != nil {
		return nil, err
	}
	ctx, running, leave := s.running.enter(r.Context(), job.blank.ID, x.key)
	defer leave()
	r = r.WithContext(ctx)
	x.fit = func(worker string, items []appserver.Item) []appserver.Item {
		return fitReasoning(origin, worker, items)
	}
	err = s.runTurn(w, r, x, workers.Ask{Model: job.req.Model, Prefer: job.prefer}, request, func(turn *appserver.Turn) error {
		var err error
		kept, err = s.answerResponse(r, x, job, turn, out, running)
		return err
	})
	return kept, err
}

// fitReasoning leaves out reasoning that another worker has made: no other
// account can read it.
func fitReasoning(origin map[string]string, worker string, items []appserver.Item) []appserver.Item {
	fit := make([]appserver.Item, 0, len(items))
	for _, item := range items {
		if from := origin[string(item)]; from == "" || from == worker {
			fit = append(fit, item)
		}
	}
	return fit
}

func (s *Server) answerResponse(r *http.Request, x *exchange, job *responding, turn *appserver.Turn, out delivery, running *running) (*remembered, error) {
	b := openai.NewResponseBuilder(job.req, job.blank, newID)
	finish, err := s.follow(r.Context(), turn, x, listener{
		text:      func(item, delta string) error { return out.send(b.Text(item, delta)) },
		reasoning: func(item string, part int, delta string) error { return out.send(b.Reasoning(item, part, delta)) },
		item:      func(item json.RawMessage) error { return out.send(b.Item(item)) },
		silence:   out.silence,
	})
	var events []openai.ResponseEvent
	switch {
	case err == nil:
		if finish == openai.FinishStop && b.Silent() && wrote(x.usage) {
			events = b.Refuse(unheard)
		}
		events = append(events, b.End(finish, x.usage, time.Now().Unix())...)
	case errors.Is(context.Cause(r.Context()), errCancelled):
		events, err = b.Cancel(x.usage), nil
	case !out.begun() || errors.Is(err, errClientGone):
		return nil, err
	default:
		events = b.Fail(s.clientError(r, err), x.usage)
	}
	kept := s.keep(r.Context(), x, job, b)
	running.ended(b.Response())
	if sent := out.end(events, b.Response()); err == nil {
		err = sent
	}
	return kept, err
}

// keep stores the response before anybody can refer to it. What cannot be stored
// is still answered, and cannot be referred to later.
func (s *Server) keep(ctx context.Context, x *exchange, job *responding, b *openai.ResponseBuilder) *remembered {
	response := b.Response()
	kept := &remembered{id: response.ID, worker: x.worker, items: job.conversation()}
	var output []stored.Item
	for _, item := range b.Kept() {
		data, err := json.Marshal(item)
		if err != nil { // it was made from strings
			panic(err)
		}
		output = append(output, stored.Item{ID: item.ID, JSON: data, Worker: x.worker})
	}
	kept.items = append(kept.items, output...)
	if !job.store {
		return kept
	}
	object, err := json.Marshal(response)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		previous, input := job.toStore()
		err = s.Responses.Put(ctx, stored.Response{
			ID: response.ID, Owner: x.key, Previous: previous, Worker: x.worker, Object: object, Input: input, Output: output,
		})
	}
	if kept.stored = err == nil; !kept.stored {
		s.Logger.Error("a response is not stored", "request_id", x.id, "response_id", response.ID, "error", err)
	}
	return kept
}
