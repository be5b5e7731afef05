package proxy

import (
	"net/http"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/workers"
)

// models serves GET /v1/models: what the ready workers advertise.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	ids := s.Pool.Models()
	if len(ids) == 0 {
		return workers.ErrNotReady
	}
	return s.writeJSON(w, openai.Models(ids, "codex"))
}
