package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"codex-proxy/runner/api/wire"
)

// Port connects to a port of a session. The caller closes the stream.
func (c *Client) Port(ctx context.Context, id string, port uint16) (*wire.PortStream, error) {
	conn, err := c.upgrade(ctx, fmt.Sprintf("%s/ports/%d", sessionPath(id), port), wire.PortProtocol)
	if err != nil {
		return nil, err
	}
	return wire.NewPortStream(conn, conn), nil
}

// AwaitPort is Port that tries again for up to patience: while no program listens on the port yet, no command runs
// yet, and the daemon starts again.
func (c *Client) AwaitPort(ctx context.Context, id string, port uint16, patience time.Duration) (*wire.PortStream,
	error) {
	end := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		stream, err := c.Port(ctx, id, port)
		var refused *wire.Error
		mayPass := passing(err) || errors.As(err, &refused) && refused.Code == wire.Conflict
		if !mayPass || time.Now().Add(pause).After(end) {
			return stream, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// upgrade makes a request whose connection becomes a stream.
func (t *transport) upgrade(ctx context.Context, path, protocol string) (io.ReadWriteCloser, error) {
	req, err := t.request(ctx, http.MethodPost, path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	res, err := t.http.Do(req)
	if err != nil {
		return nil, t.explain(ctx, err)
	}
	if conn, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}
