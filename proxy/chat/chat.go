// Package chat serves POST /v1/chat/completions.
package chat

import (
	"context"
	"net/http"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/turn"
)

// Endpoint serves chat completions. All fields but the last one are required.
type Endpoint struct {
	Server    *proxy.Server
	Admission *admission.Controller
	Turns     *turn.Runner
	Answers   *answer.Writer
	// TakesResponses also takes the body of a response in place of a chat's, and answers it with a chat completion.
	TakesResponses bool
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{{Method: http.MethodPost, Path: "/v1/chat/completions", Access: proxy.Keyed,
		Handler: e.create}}
}

// create serves POST /v1/chat/completions.
func (e *Endpoint) create(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	decode := wire.Decode
	if e.TakesResponses {
		decode = wire.DecodeChatOrResponse
	}
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, decode)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.Admission.Inline(ctx, x, req.Images()); err != nil {
		return err
	}
	return e.Answer(ctx, w, r, x, req, chatForm{wire.Answer{
		ID: proxy.NewID("chatcmpl-"), Created: time.Now().Unix(), Model: x.Model, Legacy: req.Legacy,
		Usage: req.Stream && req.IncludeUsage,
	}})
}

// Answer answers a request of any endpoint, converted to a request for a chat completion, in the form of that endpoint.
func (e *Endpoint) Answer(ctx context.Context, w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	req *wire.Request, form Form) error {
	c := &completion{Endpoint: e, w: w, x: x, req: req, form: form}
	if !req.Stream {
		return c.run(ctx)
	}
	return c.streamed(ctx, !answer.KeepaliveOff(r))
}

// completion is the answer to one request.
type completion struct {
	*Endpoint
	w         http.ResponseWriter
	x         *proxy.Exchange
	req       *wire.Request
	form      Form
	stream    *answer.Stream       // nil: the answer is whole
	keepalive bool                 // comments may break the silence of the stream
	choices   []wire.ChoiceContent // of a whole answer
}

// sink creates the sink of a choice. Its answer is charged to output.
func (c *completion) sink(index int, report *turn.Report, output outputCharge) turn.Sink {
	common := choice{completion: c, index: index, report: report, outputCharge: output}
	if c.stream != nil {
		return &streamedChoice{choice: common}
	}
	return &wholeChoice{choice: common}
}

// finish sends the end of the answer, when all choices have ended.
func (c *completion) finish() error {
	c.x.Settle()
	if c.stream != nil {
		return c.finishStream()
	}
	return c.Answers.JSON(c.w, c.form.Whole(c.choices, answer.Usage(c.x.Turn.Usage)))
}

// request is the turn of a choice.
func (c *completion) request(planned plan, report *turn.Report) turn.Request {
	codex := planned.turn // a copy, as each turn takes over its own
	return turn.Request{
		ID: c.x.ID, Key: c.x.Key.Name, Arrived: c.x.Began, Name: c.x.Model,
		Turn: &codex, CacheKey: c.req.CacheKey, Decoding: planned.images, Starts: planned.starts,
		Accounts: c.x.Accounts, Session: c.x.Session,
		Reasoning: c.req.Reasoning.Summary != "", BreakSilence: c.keepalive,
		Span: c.x.Span, Report: report,
	}
}

// run runs the turns of the choices.
func (c *completion) run(ctx context.Context) error {
	images, err := admission.Decoding(c.req.Images(), c.req.N)
	if err != nil {
		return err
	}
	planned := plan{turn: planTurn(c.req), images: images}
	c.req.Messages = nil // they are in the plan, and would stay as long as the answer takes
	c.x.Grant.Body.Shrink(planned.turn.Footprint())
	c.choices = make([]wire.ChoiceContent, c.req.N)
	if c.req.N == 1 {
		return c.Turns.Run(ctx, c.request(planned, &c.x.Turn), c.sink(0, &c.x.Turn, &c.x.Grant.Answer))
	}
	return c.runAll(ctx, planned)
}
