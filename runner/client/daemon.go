package client

import (
	"context"
	"net/http"

	"codex-proxy/runner/api/wire"
)

// Status returns the state of the daemon.
func (c *Client) Status(ctx context.Context) (wire.Status, error) {
	return call[wire.Status](ctx, c, http.MethodGet, "/status", nil)
}

// Prune removes closed sessions with their output and artifacts.
func (c *Client) Prune(ctx context.Context, p wire.Prune) (wire.Pruned, error) {
	return call[wire.Pruned](ctx, c, http.MethodPost, "/prune", p)
}
