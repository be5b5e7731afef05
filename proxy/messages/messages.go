// Package messages serves Anthropic's Messages API: POST /v1/messages, and the counting of tokens for it.
package messages

import (
	"net/http"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/turn"
)

// Endpoint serves messages. All fields are required.
type Endpoint struct {
	Server    *proxy.Server
	Admission *admission.Controller
	Turns     *turn.Runner
	Answers   *answer.Writer
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{
		e.route("/v1/messages", http.MethodPost, e.create),
		e.route("/v1/messages/count_tokens", http.MethodPost, e.count),
		e.route("/v1/messages/batches", proxy.AnyMethod, noBatches),
		e.route("/v1/messages/batches/{path...}", proxy.AnyMethod, noBatches),
	}
}

func (e *Endpoint) route(path, method string, handler proxy.Handler) proxy.Route {
	return proxy.Route{Method: method, Path: path, Access: proxy.Keyed, Form: proxy.Anthropic, Handler: handler}
}

// noBatches answers the paths of Anthropic's API for batches.
func noBatches(http.ResponseWriter, *http.Request, *proxy.Exchange) error {
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "not_supported",
		Message: "/v1/messages/batches is not supported: batches are not kept; send each message by itself",
	}
}

// create serves POST /v1/messages.
func (e *Endpoint) create(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, decoder(anthropic.DecodeMessage))
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.Admission.Inline(ctx, x, req.Images()); err != nil {
		return err
	}
	m := &message{Endpoint: e, w: w, x: x, req: req, head: anthropic.Head{
		ID: proxy.NewID("msg_"), Model: x.Model, Whole: !req.Stream,
	}}
	switch {
	case req.MaxTokens == 0:
		return m.warm(ctx)
	case !req.Stream:
		return m.run(ctx)
	}
	return m.streamed(ctx, !answer.KeepaliveOff(r))
}

// decoder adapts a decoder of Anthropic's API, which has one way of reading: it ignores no unknown parameter.
func decoder(decode func([]byte) (*anthropic.MessageRequest, error)) admission.Decoder[*anthropic.MessageRequest] {
	return func(body []byte, _ jsonbody.Reading) (*anthropic.MessageRequest, error) { return decode(body) }
}
