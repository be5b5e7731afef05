package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"codex-proxy/runner/api/wire"
)

// AddRepository returns the repository of a URL or a local path, and makes it if it does not exist.
func (c *Client) AddRepository(ctx context.Context, r wire.NewRepository) (wire.Repository, error) {
	return call[wire.Repository](ctx, c, http.MethodPost, "/repositories", r)
}

// PutBundle sends commits of a local repository, in the form of git-bundle(1).
func (c *Client) PutBundle(ctx context.Context, key string, bundle io.Reader) (wire.Repository, error) {
	path := "/repositories/" + url.PathEscape(key) + "/bundle"
	return send[wire.Repository](ctx, c, http.MethodPut, path, "application/octet-stream", bundle)
}
