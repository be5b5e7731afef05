package control

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
)

const (
	// answerTimeout bounds a call that has nothing to wait for.
	answerTimeout = 5 * time.Second
	// maxReport bounds an answer, and a line of a stream. Usage by hour and key of many keys is the longest.
	maxReport = 32 << 20
)

// ErrNotRunning means that no daemon listens.
var ErrNotRunning = errors.New("codex-proxy is not running (systemctl start codex.target), " +
	"or has its control socket elsewhere")

// ErrForbidden means that the caller may not use the control socket.
var ErrForbidden = errors.New("only root may do this: try sudo")

// Client calls the daemon behind one control socket.
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

// untilSettled repeats a call while one process hands over to the next.
func untilSettled(ctx context.Context, ask func() error) error {
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

// ask sends one request and decodes the answer; raw is its JSON.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, answer any) (raw []byte, err error) {
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxReport+1))
	switch {
	case err == nil && len(raw) > maxReport:
		return nil, fmt.Errorf("the answer of codex-proxy has more than %d MiB; ask for less, such as a shorter time",
			maxReport>>20)
	case err == nil:
		err = json.Unmarshal(raw, answer)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer of codex-proxy: %w", err)
	}
	return bytes.TrimSpace(raw), nil
}

// Get decodes the answer to a GET of a path.
func (c *Client) Get(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := c.ask(ctx, http.MethodGet, path, nil, answer)
	return err
}

// do sends one request; an answer other than 200 is an error.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, explain(err, c.socket)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusConflict {
		return nil, ErrMoved
	}
	var f failure
	explained := json.NewDecoder(io.LimitReader(res.Body, maxReport)).Decode(&f) == nil && f.Error != ""
	switch {
	case explained && res.StatusCode == http.StatusPreconditionFailed:
		return nil, fmt.Errorf("%s: %w", f.Error, ErrOtherFile)
	case explained && res.StatusCode == http.StatusForbidden:
		return nil, ErrNoRemote
	case explained:
		return nil, errors.New(f.Error)
	}
	return nil, fmt.Errorf("codex-proxy answers %s; are the command and the daemon of the same version?", res.Status)
}

func explain(err error, socket string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot reach %s: %w", socket, ErrForbidden)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: %w", socket, ErrNotRunning)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("codex-proxy does not answer: see systemctl status codex-proxy")
	}
	// There was a daemon, and it has ended: net/http has many errors for this.
	return fmt.Errorf("codex-proxy ended the connection (%v): %w", err, ErrNotRunning)
}
