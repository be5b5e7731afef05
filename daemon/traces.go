package daemon

import (
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/proxy/traces"
)

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
