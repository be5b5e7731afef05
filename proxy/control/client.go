package control

import (
	"bufio"
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

	"codex-proxy/probes"
)

const (
	// answerTimeout bounds what has nothing to wait for.
	answerTimeout = 5 * time.Second
	maxReport     = 4 << 20
)

// ErrNotRunning means that no daemon listens.
var ErrNotRunning = errors.New("codex-proxy is not running: systemctl start codex.target")

// ErrForbidden means that the caller may not use the control socket.
var ErrForbidden = errors.New("only root may do this: try sudo")

// Client asks the daemon behind one control socket.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client of the control socket at path. It connects when it
// is used.
func NewClient(path string) *Client {
	return &Client{socket: path, http: http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}}
}

// Status is the report as it is published. raw is its JSON.
func (c *Client) Status(ctx context.Context) (r probes.Report, raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return c.ask(ctx, http.MethodGet, "/v1/status", nil)
}

// Drain makes workers take no new turns, and waits as long as req says.
func (c *Client) Drain(ctx context.Context, req Request) (probes.Report, error) {
	return c.change(ctx, "/v1/drain", req)
}

// Undrain takes drains back.
func (c *Client) Undrain(ctx context.Context, req Request) (probes.Report, error) {
	return c.change(ctx, "/v1/undrain", req)
}

func (c *Client) change(ctx context.Context, path string, req Request) (probes.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.WaitMS)*time.Millisecond+answerTimeout)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return probes.Report{}, err
	}
	var r probes.Report
	err = settled(ctx, func() (err error) {
		r, _, err = c.ask(ctx, http.MethodPost, path, body)
		return err
	})
	return r, err
}

// settled asks again while one process hands over to the next.
func settled(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, ErrMoved) {
			return err
		}
		select {
		case <-time.After(movedPause):
		case <-ctx.Done():
			return err
		}
	}
}

// Watch calls each for the report now and after every change of it, until ctx
// ends, each fails or the daemon goes; only the first is not an error.
func (c *Client) Watch(ctx context.Context, each func(r probes.Report, raw []byte) error) error {
	res, err := c.do(ctx, http.MethodGet, "/v1/status/watch", nil)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		var r probes.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("cannot read the report: %w", err)
		}
		if err := each(r, lines.Bytes()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("codex-proxy has stopped, or was restarted")
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte) (r probes.Report, raw []byte, err error) {
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return r, nil, err
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, nil, fmt.Errorf("cannot read the answer of codex-proxy: %w", err)
	}
	return r, bytes.TrimSpace(raw), nil
}

// do sends one request; an answer other than 200 is an error.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusConflict {
		return nil, ErrMoved
	}
	var f failure
	if json.NewDecoder(io.LimitReader(res.Body, maxReport)).Decode(&f) == nil && f.Error != "" {
		return nil, errors.New(f.Error)
	}
	return nil, fmt.Errorf("codex-proxy answers %s; are the command and the daemon of the same version?", res.Status)
}

func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot reach %s: %w", c.socket, ErrForbidden)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("cannot reach %s: %w", c.socket, ErrNotRunning)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("codex-proxy does not answer: see systemctl status codex-proxy")
	}
	// There was a daemon, and it has gone: net/http has many words for this.
	return fmt.Errorf("codex-proxy ended the connection (%v): %w", err, ErrNotRunning)
}
