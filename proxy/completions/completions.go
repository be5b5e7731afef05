// Package completions serves POST /v1/completions, the legacy endpoint of one prompt. A
// request runs as a chat of one message, and its answer has the form of a text.
package completions

import (
	"net/http"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/chat"
	"codex-proxy/proxy/completions/wire"
)

// Endpoint serves completions. All fields are required.
type Endpoint struct {
	Admission *admission.Controller
	Chats     *chat.Endpoint
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{{Method: http.MethodPost, Path: "/v1/completions", Access: proxy.Keyed, Handler: e.create}}
}

// create serves POST /v1/completions.
func (e *Endpoint) create(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	x.Operation = proxy.CompleteText
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, wire.Decode)
	if err != nil {
		return err
	}
	defer cancel()
	if err := x.Grant.Answer.Reserve(ctx, req.N*len(req.Echo)); err != nil {
		return err
	}
	return e.Chats.Answer(ctx, w, r, x, &req.Request, form{
		Answer: wire.Answer{
			ID: proxy.NewID("cmpl-"), Created: time.Now().Unix(), Model: x.Model,
			Usage: req.Stream && req.IncludeUsage,
		},
		echo: req.Echo,
	})
}
