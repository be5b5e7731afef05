// Package responses serves OpenAI's Responses API: over HTTP, and on WebSockets.
package responses

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/turn"
)

// Settings is the configuration of an Endpoint. All fields are required but Store.
type Settings struct {
	Server  *proxy.Server
	Intake  *intake.Intake
	Turns   *turn.Runner
	Answers *answer.Writer
	// Store keeps responses; nil: none is kept.
	Store *stored.Store
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

	running inFlight
	lanes   *lanes
	metrics *metrics
}

// New creates an endpoint.
func New(settings Settings) *Endpoint {
	e := &Endpoint{Settings: settings, running: inFlight{byID: map[string]*running{}}, lanes: newLanes(0)}
	if settings.Store != nil {
		e.lanes = newLanes(settings.Store.Limits.Bytes / backgroundPart)
	}
	e.metrics = newMetrics(settings.Registry, e.lanes)
	return e
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{
		{Method: http.MethodPost, Path: "/v1/responses", Access: proxy.Keyed, Handler: e.create},
		{Method: http.MethodPost, Path: "/v1/responses/input_tokens", Access: proxy.Keyed, Handler: e.inputTokens},
		{Method: http.MethodPost, Path: "/v1/responses/compact", Access: proxy.Keyed, Handler: e.compact},
		{Method: http.MethodGet, Path: "/v1/responses", Access: proxy.Keyed, Handler: e.upgrade},
		{Method: http.MethodGet, Path: "/v1/responses/{id}", Access: proxy.Keyed, Handler: e.get},
		{Method: http.MethodDelete, Path: "/v1/responses/{id}", Access: proxy.Keyed, Handler: e.delete},
		{Method: http.MethodPost, Path: "/v1/responses/{id}/cancel", Access: proxy.Keyed, Handler: e.cancel},
		{Method: http.MethodGet, Path: "/v1/responses/{id}/input_items", Access: proxy.Keyed, Handler: e.inputItems},
	}
}

// create serves POST /v1/responses.
func (e *Endpoint) create(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	var body []byte // of a background response
	req, ctx, cancel, err := intake.Take(e.Intake, w, r, x, func(b []byte) (*openai.ResponseRequest, error) {
		req, err := e.Intake.Reading(x).Response(b)
		if err == nil && req.Background {
			body = b
		}
		return req, err
	})
	if err != nil {
		return err
	}
	defer cancel()
	if req.Background {
		return e.createBackground(w, r, x, body, req)
	}
	job, err := e.newJob(ctx, x, req, nil)
	if err != nil {
		return err
	}
	defer e.close(job)
	s := &response{Endpoint: e, w: w, x: x, job: job}
	if req.Stream {
		defer e.Answers.CountStream()()
		s.events, s.silence, s.keepalive = sse{e.Answers.Stream(w)}, streamSilence, !answer.KeepaliveOff(r)
		s.alert = true
	}
	_, err = s.answer(ctx)
	return err
}
