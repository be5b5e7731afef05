// Package client calls the daemon of codex-runner over its socket: sessions and their commands, output, shells,
// artifacts and repositories.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// maxAnswer bounds a JSON answer, in bytes: 10 000 sessions have less.
const maxAnswer = 64 << 20

// ErrNotRunning means that nothing answers on the socket. A daemon that starts again makes a later call succeed.
// systemd closes the socket when the daemon has reached its start limit, perhaps because of its settings.
var ErrNotRunning = errors.New("codex-runner is not running: mend what `systemctl status codex-runner` says, " +
	"then systemctl reset-failed 'codex-runner.*' && systemctl start codex-runner")

// ErrLost means that the daemon closed the connection before its answer was whole.
var ErrLost = errors.New("the connection to codex-runner was lost: it restarts, or has ended, " +
	"for what `systemctl status codex-runner` says")

// ErrForbidden means that the caller may not use the socket.
var ErrForbidden = errors.New("you may not use it: be root, or a member of the group codex-runner " +
	"(usermod -aG codex-runner USER, and log in anew)")

// Client calls the daemon behind one socket. Its methods may be called by several goroutines. Each returns a
// *wire.Error if the daemon refuses the request, and ErrNotRunning, ErrLost or ErrForbidden, wrapped, if it cannot be
// reached.
type Client struct{ transport }

// New returns a client of the unix socket at path. It connects when it is used.
func New(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{transport{
		socket: path, pause: firstPause, patience: patience,
		http: http.Client{Transport: &http.Transport{DialContext: dial}},
	}}
}

// call sends a request with a JSON body, nil for none, and decodes the answer into a T.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return *new(T), err
		}
		text = bytes.NewReader(b)
	}
	return send[T](ctx, c, method, path, "application/json", text)
}

// send is call with a body that is sent as it is.
func send[T any](ctx context.Context, c *Client, method, path, kind string, body io.Reader) (T, error) {
	var answer T
	res, err := c.do(ctx, method, path, kind, body)
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("cannot read the answer of codex-runner: %w", err)
	}
	return answer, nil
}
