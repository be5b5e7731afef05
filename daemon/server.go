package daemon

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/fetch"
	"codex-proxy/proxy/intake"
	"codex-proxy/remotes/links"
)

func (d *Daemon) newServer(registry *prometheus.Registry) *api.API {
	cfg := d.cfg
	server := api.New(api.Settings{
		Pool: d.pool, Report: d.health.handled, Keys: cfg.Keys, Usage: d.usage, Claim: d.ledger.Claim,
		OnKeyUse: d.loads.Changed, Aliases: cfg.Aliases, Summary: cfg.Summary, CORSOrigins: cfg.CORSOrigins,
		IgnoreUnknown: cfg.IgnoreUnknown, ChatTakesResponses: cfg.ChatTakesResponses,
		Images:    newImages(cfg, registry, d.logger),
		BodyLimit: cfg.BodyLimit, RequestMemory: cfg.RequestMemory, QueueTimeout: cfg.QueueTimeout,
		IdleTimeout: cfg.IdleTimeout, RequestTimeout: cfg.RequestTimeout, Keepalive: cfg.Keepalive,
		ThreadCache: cfg.ThreadCache, Responses: d.responses, Traces: d.traces, Registry: registry, Logger: d.logger,
	})
	if d.links != nil {
		server.Mount((&links.Endpoint{Links: d.links, Answers: server.Answers}).Routes()...)
	}
	return server
}

// newImages returns the client of codex-proxy-fetch.service, which alone has a network; nil
// if the settings want no images from it.
func newImages(cfg *config.Config, registry prometheus.Registerer, logger *slog.Logger) intake.Images {
	if !cfg.Images.Fetch {
		return nil
	}
	return fetch.NewClient(cfg.FetchSocket(), FetchLimits(&cfg.Images), registry, logger)
}

// FetchLimits returns the limits that both sides of the fetch socket enforce.
func FetchLimits(images *config.Images) fetch.Limits {
	return fetch.Limits{Bytes: images.MaxBytes, Time: images.Timeout, Allow: images.AllowPrivate}
}
