// Package textfile has the metrics that codex-proxy writes for the textfile collector of node exporter.
package textfile

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/promfile"
	"codex-proxy/probes"
)

// New returns a writer of the report to the file at path. version is the program's.
func New(path, version string, report func() probes.Report, logger *slog.Logger) *promfile.Writer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(version, report))
	return promfile.New(path, registry, func() []string { return stateOf(report()) }, logger)
}

// stateOf is the part of the report that causes a write at once if it changes.
func stateOf(r probes.Report) []string {
	state := []string{string(r.Health.Readiness.Reason)}
	for _, w := range r.Workers {
		state = append(state, string(w.Reason), w.InvocationID)
	}
	for _, d := range r.Dependencies {
		state = append(state, d.Name, string(d.Reason), d.Since.String())
	}
	for _, r := range r.Remotes {
		state = append(state, r.Name, string(r.Reason), r.Since.String())
	}
	return state
}
