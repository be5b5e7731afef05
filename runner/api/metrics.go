package api

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"codex-proxy/runner/api/wire"
)

// metrics has counts of all users.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, c caller) error {
	if !c.admin {
		return &wire.Error{Code: wire.Forbidden, Message: "only administrators see the metrics",
			Remedy: "be root, or have root add your name to admins in runner.toml"}
	}
	promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}
