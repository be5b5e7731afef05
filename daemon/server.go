package daemon

import (
	"context"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/daemon/recent"
	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/fetch"
	"codex-proxy/proxy/traces"
	"codex-proxy/remotes/links"
	"codex-proxy/remotes/workerhands"
	"codex-proxy/units/survey"
)

// offer makes the API with its stores.
func (d *Daemon) offer(registry *prometheus.Registry) {
	cfg := d.cfg
	d.usage = newUsage(cfg, registry, d.logger)
	traces := newTraces(cfg, d.version, registry, d.logger)
	d.links = newLinks(cfg, d.systemd, registry, d.logger)
	hands := workerhands.NewClient(survey.Generated)
	d.server = api.New(api.Settings{
		Pool: d.pool, Report: d.health.Handled, Keys: cfg.Keys, Usage: d.usage, Claim: d.counter.Claim,
		Shares:   d.shares,
		OnEnd:    func(method string, x *proxy.Exchange) { d.recent.Add(recent.RequestOf(method, x)) },
		OnKeyUse: d.loads.Changed, Aliases: cfg.Aliases, Summary: cfg.Summary, CORSOrigins: cfg.CORSOrigins,
		IgnoreUnknown: cfg.IgnoreUnknown, ChatTakesResponses: cfg.ChatTakesResponses,
		Images:    newImages(cfg, registry, d.logger),
		BodyLimit: cfg.BodyLimit, RequestMemory: cfg.RequestMemory, QueueTimeout: cfg.QueueTimeout,
		IdleTimeout: cfg.IdleTimeout, RequestTimeout: cfg.RequestTimeout, Keepalive: cfg.Keepalive,
		ThreadCache: cfg.ThreadCache, Codexes: codexes{d.follower, d.hosts, d.pool},
		Brokered:  func(account string) bool { return d.brokers.Brokered(d.hosts.Of(account)) },
		Hands:     hands,
		Responses: d.responses, Traces: traces,
		Registry: registry, Logger: d.logger,
	})
	d.server.Mount((&workerhands.Endpoint{Server: d.server.Server, Client: hands}).Routes()...)
	d.server.Mount((&links.Endpoint{Links: d.links, Answers: d.server.Answers}).Routes()...)
	f := feature{background: []Task{{"usage", d.usage.Run}}, alive: d.server.Alive}
	if d.responses != nil {
		f.background = append(f.background, Task{"responses", d.responses.Run},
			Task{"background responses", d.server.Run})
	}
	if traces != nil {
		f.background = append(f.background, Task{"traces", traces.Run})
	}
	for _, l := range d.listeners {
		f.serving = append(f.serving, Task{"http", func(ctx context.Context) error { return d.serve(ctx, l) }})
	}
	d.add(registry, f)
}

// newImages returns the client of codex-proxy-fetch.service, which alone has a network; nil
// if the settings want no images from it.
func newImages(cfg *config.Config, registry prometheus.Registerer, logger *slog.Logger) admission.Images {
	if !cfg.Images.Fetch {
		return nil
	}
	return fetch.NewClient(cfg.FetchSocket(), FetchLimits(&cfg.Images), registry, logger)
}

// FetchLimits returns the limits that both sides of the fetch socket enforce.
func FetchLimits(images *config.Images) fetch.Limits {
	return fetch.Limits{Bytes: images.MaxBytes, Time: images.Timeout, Allow: images.AllowPrivate}
}

// newTraces returns the tracer, which sends spans to codex-proxy-traces.service: that alone
// has a network. It returns nil if the settings want no traces.
func newTraces(cfg *config.Config, version string, registry prometheus.Registerer, logger *slog.Logger) *traces.Tracer {
	if cfg.Traces.Endpoint == "" {
		return nil
	}
	host, _ := os.Hostname() // traces do without it
	return traces.New(traces.Settings{
		Socket: cfg.TracesSocket(), Ratio: cfg.Traces.SampleRatio,
		Version: version, Host: host, Registry: registry, Logger: logger,
	})
}
