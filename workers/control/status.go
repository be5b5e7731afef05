package control

import (
	"context"
	"net/http"

	"codex-proxy/probes"
)

func (s *Server) status(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.report()) }

// Status is the report as it is published; raw is its JSON.
func (c *Client) Status(ctx context.Context) (r probes.Report, raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	raw, err = c.ask(ctx, http.MethodGet, "/v1/status", nil, &r)
	return r, raw, err
}
