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
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"codex-proxy/runner/api/wire"
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
type Client struct {
	socket string
	http   http.Client
	// Of again: the first pause between two attempts, and how long they go on.
	pause, patience time.Duration
}

// New returns a client of the unix socket at path. It connects when it is used.
func New(path string) *Client {
	return &Client{socket: path, pause: firstPause, patience: patience, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}}
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

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

// do sends a request. An answer of 400 or more is an error; the caller closes the body of others.
func (c *Client) do(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, method, "http://codex-runner/v1"+path, body)
}

// refusal is the error of an answer.
func refusal(res *http.Response) error {
	var f wire.Failure
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && json.Unmarshal(text, &f) == nil && f.Error != nil {
		return f.Error
	}
	return fmt.Errorf("codex-runner answers %s, without a reason: are the program and the daemon of one version?",
		res.Status)
}

// explain returns the error for a request without an answer.
func (c *Client) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot connect to %s: %w", c.socket, ErrForbidden)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: %w", c.socket, ErrNotRunning)
	}
	// There was a daemon, and it has ended: net/http has many errors for this.
	return &lostError{err}
}

// lostError is ErrLost with the error of net/http, which is of little use to people.
type lostError struct{ err error }

func (e *lostError) Error() string { return ErrLost.Error() }

func (e *lostError) Unwrap() []error { return []error{ErrLost, e.err} }
