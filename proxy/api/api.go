// Package api assembles the OpenAI-compatible API: the server, its limits, and its
// endpoints.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/probes"
	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/chat"
	"codex-proxy/proxy/completions"
	"codex-proxy/proxy/connections"
	"codex-proxy/proxy/conversations"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/messages"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/models"
	"codex-proxy/proxy/responses"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/storedanswer"
	"codex-proxy/proxy/traces"
	"codex-proxy/proxy/turn"
	"codex-proxy/proxy/usage"
	"codex-proxy/workers"
	"codex-proxy/workers/collectors"
)

// Settings is the configuration of the API. All durations must be positive, except where
// a field allows 0.
type Settings struct {
	Pool *workers.Pool
	// Report is the current health; probes, Retry-After and errors use it.
	Report func() probes.Report
	// Keys are the API keys; without any, requests need none.
	Keys *auth.Keys
	// Images fetches images that requests name by URL; nil refuses those.
	Images admission.Images
	// Usage counts the use of the keys; nil: it is not counted.
	Usage *usage.Store
	// Claim and OnKeyUse are as in limits.Settings.
	Claim    func() bool
	OnKeyUse func()
	// Shares is as in limits.Settings.
	Shares *limits.Shares
	// Aliases are further names of models.
	Aliases map[string]modelname.Alias
	// Summary is the reasoning.summary of requests that name none; empty: none.
	Summary string
	// CORSOrigins are the origins of pages that may use the API, or "*".
	CORSOrigins []string
	// BodyLimit bounds a request body, in bytes, and the images fetched for it.
	BodyLimit int64
	// IgnoreUnknown is as in admission.Settings, ChatTakesResponses as in chat.Endpoint.
	IgnoreUnknown, ChatTakesResponses bool
	// RequestMemory bounds the bytes that requests hold at the same time: their bodies,
	// images, conversations and answers. WebSockets remember a quarter as much. It must be
	// several times BodyLimit.
	RequestMemory int64
	// QueueTimeout is the longest that a request waits for memory.
	QueueTimeout time.Duration
	// IdleTimeout is the longest silence of a worker during a turn, and the longest time in
	// which a client takes nothing of its answer.
	IdleTimeout time.Duration
	// RequestTimeout bounds a request from the arrival of its body to the end of its
	// answer; 0 is no bound.
	RequestTimeout time.Duration
	// Hands has the sessions of workers with [hands]; nil: no worker has any.
	Hands turn.Hands
	// StartTimeout, Codexes and Brokered are as in turn.Settings.
	StartTimeout time.Duration
	Codexes      turn.Codexes
	Brokered     func(worker string) bool
	// Keepalive is the silence on a stream after which a comment is sent.
	Keepalive time.Duration
	// ThreadCache is the number of threads of answered requests that are kept for requests
	// that continue them; 0 turns that off.
	ThreadCache int
	// Responses keeps responses; nil: none is kept.
	Responses stored.Store
	// OnEnd is as in proxy.Settings.
	OnEnd func(method string, x *proxy.Exchange)
	// Traces records spans of requests; nil: nothing does.
	Traces   *traces.Tracer
	Registry *prometheus.Registry
	Logger   *slog.Logger
}

// API is the assembled server, with the parts that its owner needs.
type API struct {
	*proxy.Server
	Limiter   *limits.Limiter
	Catalogue *models.Catalogue
	Answers   *answer.Writer // of further endpoints that the owner mounts

	socketMemory *limits.Memory // of conversations that WebSockets remember
	background   func(context.Context) error
}

// Run cancels background responses of this process that clients of another process have cancelled, and ends the
// responses of ended processes, until ctx ends; then it returns nil.
func (a *API) Run(ctx context.Context) error { return a.background(ctx) }

// New assembles the API and registers its metrics.
func New(s Settings) *API {
	nextPlace := func() time.Duration { return probes.ClampRetry(s.Pool.EstimatedWait()) }
	memory := limits.NewMemory(s.RequestMemory, s.QueueTimeout)
	a := &API{
		Limiter: limits.NewLimiter(limits.Settings{
			Keys: s.Keys, Usage: s.Usage, NextPlace: nextPlace, Claim: s.Claim, OnKeyUse: s.OnKeyUse, Shares: s.Shares,
		}),
		Catalogue:    models.New(s.Pool, s.Aliases, s.Summary, s.Logger),
		socketMemory: limits.NewMemory(s.RequestMemory/4, 0),
	}
	a.Server = proxy.New(proxy.Settings{
		Report: s.Report, NextPlace: nextPlace, NoModel: a.Catalogue.NotFound, Keys: s.Keys, Limiter: a.Limiter,
		Memory: memory, Accounts: s.Pool.Names(), Hands: handsOf(s.Hands),
		Connections: newConnections(s.Logger), CORSOrigins: s.CORSOrigins, WriteTimeout: s.IdleTimeout,
		OnEnd: s.OnEnd, Traces: s.Traces, Registry: s.Registry, Logger: s.Logger,
	})
	s.Registry.MustRegister(
		limits.NewCollector(a.Limiter), memory,
		collectors.NewReport(s.Report), collectors.NewAccounts(s.Pool.AccountStore()), s.Pool.Readings(),
	)
	a.mount(s)
	return a
}

// handsOf reports which workers have hands.
func handsOf(hands turn.Hands) func(worker string) bool {
	if hands == nil {
		return nil
	}
	return hands.Of
}

func newConnections(logger *slog.Logger) *connections.Connections {
	return connections.New(func(limit int) {
		logger.Warn("too many connections: those without a request are closed", "limit", limit)
	})
}

// mount mounts the endpoints.
func (a *API) mount(s Settings) {
	in := admission.New(admission.Settings{
		Catalogue: a.Catalogue, Images: s.Images, BodyLimit: s.BodyLimit, RequestTimeout: s.RequestTimeout,
		IgnoreUnknown: s.IgnoreUnknown,
	})
	turns := turn.New(turn.Settings{
		Pool: s.Pool, IdleTimeout: s.IdleTimeout, Keepalive: s.Keepalive, StartTimeout: s.StartTimeout,
		ThreadCache: s.ThreadCache, Codexes: s.Codexes, Brokered: s.Brokered, Hands: s.Hands,
		Registry: s.Registry, Logger: s.Logger,
	})
	answers := answer.New(s.IdleTimeout, s.Registry)
	a.Answers = answers
	chats := &chat.Endpoint{Server: a.Server, Admission: in, Turns: turns, Answers: answers,
		TakesResponses: s.ChatTakesResponses}
	responses := responses.New(responses.Settings{
		Server: a.Server, Admission: in, Turns: turns, Answers: answers, Store: s.Responses,
		SocketMemory: a.socketMemory, Keepalive: s.Keepalive, WriteTimeout: s.IdleTimeout, Registry: s.Registry,
	})
	talks := &conversations.Endpoint{
		Admission: in, Answers: answers, Store: s.Responses,
		Stored: &storedanswer.Writer{Answers: answers, Logger: s.Logger},
	}
	a.background = responses.Run
	catalogue := &models.Endpoint{Catalogue: a.Catalogue, Answers: answers}
	a.Mount(chats.Routes()...)
	a.Mount((&completions.Endpoint{Admission: in, Chats: chats}).Routes()...)
	a.Mount(responses.Routes()...)
	a.Mount((&messages.Endpoint{Server: a.Server, Admission: in, Turns: turns, Answers: answers}).Routes()...)
	a.Mount(talks.Routes()...)
	a.Mount(catalogue.Routes()...)
	a.Mount(unservedRoutes()...)
}
