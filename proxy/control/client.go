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
	// nextBound is how long a watch looks for the next daemon.
	nextBound = time.Second
)

// ErrNotRunning means that no daemon listens.
var ErrNotRunning = errors.New("codex-proxy is not running (systemctl start codex.target), or has its control socket elsewhere")

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
	raw, err = c.ask(ctx, http.MethodGet, "/v1/status", nil, &r)
	return r, raw, err
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
	err = settled(ctx, func() error {
		_, err := c.ask(ctx, http.MethodPost, path, body, &r)
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

// errGone is the end of a daemon that nobody has followed.
var errGone = errors.New("codex-proxy has stopped, or was restarted")

// Watch calls each for the report now and after every change of it, until ctx
// ends, each fails or the daemon goes; only the first is not an error. After a
// reload it goes on with the new process.
func (c *Client) Watch(ctx context.Context, each func(r probes.Report, raw []byte) error) error {
	told, err := c.follow(ctx, each)
	for told && err == nil && ctx.Err() == nil {
		told, err = c.followNext(ctx, each)
	}
	if err == nil && ctx.Err() == nil {
		err = errGone
	}
	return err
}

// followNext is follow of the next daemon, if there is one soon. The one before may
// still accept, and then tells nothing.
func (c *Client) followNext(ctx context.Context, each func(r probes.Report, raw []byte) error) (told bool, err error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	bound := time.AfterFunc(nextBound, cancel)
	defer bound.Stop()
	for {
		told, err = c.follow(bounded, func(r probes.Report, raw []byte) error {
			bound.Stop()
			return each(r, raw)
		})
		if told {
			return true, err
		}
		select {
		case <-time.After(movedPause):
		case <-bounded.Done():
			return false, nil
		}
	}
}

// follow is Watch of one daemon; told says whether that has told anything. Its end
// is no error.
func (c *Client) follow(ctx context.Context, each func(r probes.Report, raw []byte) error) (told bool, err error) {
	res, err := c.do(ctx, http.MethodGet, "/v1/status/watch", nil)
	if err != nil && ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		var r probes.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return told, fmt.Errorf("cannot read the report: %w", err)
		}
		told = true
		if err := each(r, lines.Bytes()); err != nil {
			return told, err
		}
	}
	return told, nil
}

// ask sends one request and decodes what comes back; raw is its JSON.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, answer any) (raw []byte, err error) {
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err == nil {
		err = json.Unmarshal(raw, answer)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer of codex-proxy: %w", err)
	}
	return bytes.TrimSpace(raw), nil
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
	said := json.NewDecoder(io.LimitReader(res.Body, maxReport)).Decode(&f) == nil && f.Error != ""
	switch {
	case said && res.StatusCode == http.StatusPreconditionFailed:
		return nil, fmt.Errorf("%s: %w", f.Error, ErrOtherFile)
	case said:
		return nil, errors.New(f.Error)
	}
	return nil, fmt.Errorf("codex-proxy answers %s; are the command and the daemon of the same version?", res.Status)
}

func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot reach %s: %w", c.socket, ErrForbidden)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: %w", c.socket, ErrNotRunning)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("codex-proxy does not answer: see systemctl status codex-proxy")
	}
	// There was a daemon, and it has gone: net/http has many words for this.
	return fmt.Errorf("codex-proxy ended the connection (%v): %w", err, ErrNotRunning)
}
