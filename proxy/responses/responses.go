// Package responses serves OpenAI's Responses API: over HTTP, and on WebSockets.
package responses

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/queue"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/turn"
)

// Settings is the configuration of an Endpoint. All fields are required but Store.
type Settings struct {
	Server    *proxy.Server
	Admission *admission.Controller
	Turns     *turn.Runner
	Answers   *answer.Writer
	// Store keeps responses; nil: none is kept.
	Store stored.Store
	// SocketMemory bounds the conversations that WebSockets remember.
	SocketMemory *limits.Memory
	// Keepalive is the time between two pings of a WebSocket.
	Keepalive time.Duration
	// WriteTimeout bounds a frame to a WebSocket.
	WriteTimeout time.Duration
	Registry     prometheus.Registerer
}

// Endpoint serves responses. Create it with New; it is safe for concurrent use.
type Endpoint struct {
	Settings

	running *inflight.Responses
	lanes   *queue.Lanes
	jobs    *jobs.Finder
	metrics *metrics
}

// New creates an endpoint.
func New(settings Settings) *Endpoint {
	e := &Endpoint{Settings: settings, running: inflight.New(), lanes: queue.New(0)}
	if settings.Store != nil {
		e.lanes = queue.New(settings.Store.Bytes() / queue.BackgroundPart)
	}
	e.jobs = &jobs.Finder{Admission: settings.Admission, Turns: settings.Turns, Store: settings.Store,
		InFlight: e.isInFlight}
	e.metrics = newMetrics(settings.Registry, e.lanes)
	return e
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	l := &lookups{e}
	return []proxy.Route{
		{Method: http.MethodPost, Path: "/v1/responses", Access: proxy.Keyed, Handler: e.create},
		{Method: http.MethodPost, Path: "/v1/responses/input_tokens", Access: proxy.Keyed, Handler: e.inputTokens},
		{Method: http.MethodPost, Path: "/v1/responses/compact", Access: proxy.Keyed, Handler: e.compact},
		{Method: http.MethodGet, Path: "/v1/responses", Access: proxy.Keyed, Handler: e.upgrade},
		{Method: http.MethodGet, Path: "/v1/responses/{id}", Access: proxy.Keyed, Handler: l.get},
		{Method: http.MethodDelete, Path: "/v1/responses/{id}", Access: proxy.Keyed, Handler: l.delete},
		{Method: http.MethodPost, Path: "/v1/responses/{id}/cancel", Access: proxy.Keyed, Handler: l.cancel},
		{Method: http.MethodGet, Path: "/v1/responses/{id}/input_items", Access: proxy.Keyed, Handler: l.inputItems},
	}
}

// create serves POST /v1/responses.
func (e *Endpoint) create(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	var body []byte // of a background response
	decode := func(b []byte, how jsonbody.Reading) (*wire.Request, error) {
		req, err := wire.Decode(b, how)
		if err == nil && req.Background {
			body = b
		}
		return req, err
	}
	req, ctx, cancel, err := admission.Take(e.Admission, w, r, x, decode)
	if err != nil {
		return err
	}
	defer cancel()
	if !req.Background {
		return e.respond(ctx, w, r, x, req)
	}
	return e.createBackground(w, r, x, body, req)
}

// respond answers a request on its connection.
func (e *Endpoint) respond(ctx context.Context, w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	req *wire.Request) error {
	job, err := e.jobs.New(ctx, x, req, nil)
	if err != nil {
		return err
	}
	defer e.jobs.Close(job)
	s := &response{Endpoint: e, w: w, x: x, job: job}
	if req.Stream {
		defer e.Answers.CountStream()()
		s.events, s.silence, s.keepalive = sse{e.Answers.Stream(w)}, streamSilence, !answer.KeepaliveOff(r)
		s.alert = true
	}
	_, err = s.answer(ctx)
	return err
}
