package proxy

import (
	"cmp"
	"context"
	"errors"
	"math"
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
	history []said // what came before the input
	input   []said
	loose   bool // the history is not stored
	store   bool
	recall  bool   // its connection remembers it
	prefer  string // the worker that answered last
}

// kept tells that somebody may come back to the response.
func (j *responding) kept() bool { return j.store || j.recall }

// remembered is what a connection knows of its last response, stored or not.
type remembered struct {
	id, worker string
	items      []said // the whole conversation
	stored     bool
}

// delivery is how a response leaves: as events, or as a whole.
type delivery struct {
	send    func([]openai.ResponseEvent) error // as they come; nothing may be in it
	flush   func() error                       // lets the client have what was sent; nil: it has
	silence func() error                       // nil: silence is not to be broken
	begun   func() bool                        // something has left
	end     func([]openai.ResponseEvent, openai.Response) error
}

// breaking breaks a silence: by the events that come first in any case, if they
// are not out yet.
func (d delivery) breaking(b *openai.ResponseBuilder) func() error {
	if d.silence == nil {
		return nil
	}
	return func() error {
		if first := b.Begin(); first != nil {
			if err := d.send(first); err != nil || d.flush == nil {
				return err
			}
			return d.flush()
		}
		return d.silence()
	}
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
	if req.Model, req.Reasoning.Effort, err = s.limit(x, req.Model, req.Reasoning.Effort, 1); err != nil {
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

// respond runs the turn of a response. While that can still be lost and run
// again, nothing is sent. It returns what is to be remembered of the response,
// nil if that did not come to an end.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, x *exchange, job *responding, out delivery) (kept *remembered, err error) {
	request, from, images, err := planResponse(job.req, job.conversation())
	if err != nil {
		return nil, err
	}
	// What is in the plan would be there as long as the answer takes.
	job.req.Input = nil
	x.lasts = math.MaxInt64 // until it is stored
	if !job.kept() {
		job.history, job.input = nil, nil
		x.lasts = perByte * int64(job.blank.Size())
		x.held.keep(x.lasts + request.Footprint())
	}
	ctx, running, leave := s.running.enter(r.Context(), job.blank.ID, x.key)
	defer leave()
	r = r.WithContext(ctx)
	x.fit = from.fit
	ask := workers.Ask{Model: job.req.Model, Prefer: cmp.Or(s.prefers(from), job.prefer), Decoding: images}
	err = s.runTurn(w, r, x, ask, request, func(turn *appserver.Turn) error {
		var err error
		kept, err = s.answerResponse(r, x, job, turn, out, running)
		return err
	}, nil)
	if errors.Is(err, errCancelled) {
		err = nil // that was the answer
	}
	return kept, err
}

func (s *Server) answerResponse(r *http.Request, x *exchange, job *responding, turn *appserver.Turn, out delivery, running *running) (*remembered, error) {
	b := openai.NewResponseBuilder(job.req, job.blank, markOf(x.worker), newID)
	finish, err := s.follow(r.Context(), turn, x, listener{
		text:      func(item, delta string) error { return out.send(b.Text(item, delta)) },
		reasoning: func(item string, part int, delta string) error { return out.send(b.Reasoning(item, part, delta)) },
		item:      func(item appserver.ResponseItem) error { return out.send(b.Item(item.Item)) },
		idle:      out.flush,
		silence:   out.breaking(b),
	})
	var events []openai.ResponseEvent
	var outcome error
	switch {
	case err == nil:
		if finish == openai.FinishStop && !b.HasOutput() && wrote(x.usage) {
			events = b.Refuse(unheard)
		}
		events = append(events, b.End(finish, x.usage, time.Now().Unix())...)
	case errors.Is(context.Cause(r.Context()), errCancelled):
		events, err, outcome = b.Cancel(x.usage), nil, errCancelled
	case !out.begun() || errors.Is(err, errClientGone):
		return nil, err
	default:
		events = b.Fail(s.clientError(r, err), x.usage)
	}
	kept := s.keep(r.Context(), x, job, b)
	running.ended(b.Response())
	s.settle(x)
	if sent := out.end(events, b.Response()); err == nil {
		err = sent
	}
	return kept, cmp.Or(err, outcome)
}

// keep stores the response before anybody can refer to it. What cannot be stored
// is still answered, and cannot be referred to later; on its connection it can,
// unless what it continues was deleted meanwhile.
func (s *Server) keep(ctx context.Context, x *exchange, job *responding, b *openai.ResponseBuilder) *remembered {
	response := b.Response()
	kept := &remembered{id: response.ID, worker: x.worker, items: job.conversation()}
	output := made(b.FullOutput(), x.worker)
	kept.items = append(kept.items, output...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if !job.store {
		s.renew(ctx, x, job)
		return kept
	}
	err := s.store(ctx, x, job, response, output)
	if kept.stored = err == nil; !kept.stored && !errors.Is(err, stored.ErrUnavailable) { // that is logged once for all
		s.Logger.Error("a response is not stored", "request_id", x.id, "response_id", response.ID, "error", err)
	}
	if errors.Is(err, stored.ErrNotFound) || errors.Is(err, stored.ErrBroken) {
		return nil
	}
	return kept
}

// renew tells that the history was used, although nothing is put behind it.
func (s *Server) renew(ctx context.Context, x *exchange, job *responding) {
	if job.req.Previous == "" || job.loose {
		return
	}
	if err := s.Responses.Renew(ctx, x.key, job.req.Previous); err != nil {
		s.Logger.Error("a response that was continued may go sooner than it should", "request_id", x.id, "response_id", job.req.Previous, "error", err)
	}
}

func (s *Server) store(ctx context.Context, x *exchange, job *responding, response openai.Response, output []said) error {
	r := stored.Response{ID: response.ID, Owner: x.key, Worker: x.worker}
	input := job.input
	if r.Previous = job.req.Previous; job.loose { // there is nothing to put it behind
		r.Previous, input = "", job.conversation()
	}
	var err error
	if r.Object, err = openai.Encode(response); err != nil {
		return err
	}
	if r.Input, err = toStore(input); err != nil {
		return err
	}
	if r.Output, err = toStore(output); err != nil {
		return err
	}
	return s.Responses.Put(ctx, r)
}
