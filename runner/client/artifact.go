package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"codex-proxy/runner/api/wire"
)

// Artifacts returns the artifacts of a session, by command and path.
func (c *Client) Artifacts(ctx context.Context, id string) ([]wire.Artifact, error) {
	list, err := call[wire.Artifacts](ctx, c, http.MethodGet, sessionPath(id)+"/artifacts", nil)
	return list.Artifacts, err
}

// Artifact writes the content of an artifact to w. An answer that ends early is an error.
func (c *Client) Artifact(ctx context.Context, id string, a wire.Artifact, w io.Writer) error {
	res, err := c.do(ctx, http.MethodGet, fmt.Sprintf("%s/artifacts/%d", sessionPath(id), a.ID), "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(w, res.Body)
	if err == nil && n != a.Bytes {
		err = fmt.Errorf("it has %d bytes, and %d came", a.Bytes, n)
	}
	if err != nil {
		return fmt.Errorf("cannot read the artifact %s: %w", a.Path, err)
	}
	return nil
}
