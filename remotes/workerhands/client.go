package workerhands

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/turn"
	"codex-proxy/remotes/hands"
	"codex-proxy/units"
)

// Client asks the units of workers for sessions. It implements turn.Hands, and is safe for concurrent use.
type Client struct {
	// Generated is the directory of generated units, by which it knows the workers with hands, and Sockets that of the
	// units' sockets.
	Generated, Sockets string
}

// again is the pause before the next try to have a session of which the unit has lost the connection.
const again = 200 * time.Millisecond

// mostAnswer bounds an answer that is read whole, in bytes: a patch.
const mostAnswer = 8 << 20

// Of implements turn.Hands.
func (c *Client) Of(worker string) bool {
	_, err := os.Stat(filepath.Join(c.Generated, units.Hands(worker)+".d", dropIn))
	return err == nil
}

// Enter implements turn.Hands. Until Stay.Leave it has the session again whenever the unit has ended and started anew.
func (c *Client) Enter(ctx context.Context, worker string, of turn.HandsSession) (*turn.Stay, error) {
	q := question{Key: of.Key, Name: of.Name}
	if of.Name == "" {
		q.Name, q.OfTurn = "turn "+rand.Text(), true
	}
	p, held, err := c.enter(ctx, worker, q)
	if err != nil {
		return nil, err
	}
	staying, stop := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.stay(staying, worker, q, held)
	}()
	return &turn.Stay{New: p.New && !q.OfTurn, Leave: func() { stop(); <-left },
		Environment: appserver.Environment{ID: p.Environment, URL: p.URL, Token: p.Token, Dir: hands.Directory}}, nil
}

// stay keeps the session until ctx ends.
func (c *Client) stay(ctx context.Context, worker string, q question, held io.ReadCloser) {
	for {
		stop := context.AfterFunc(ctx, func() { _ = held.Close() })
		_, _ = io.Copy(io.Discard, held) // it ends with the connection
		stop()
		_ = held.Close()
		for held = nil; held == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(again):
			}
			_, held, _ = c.enter(ctx, worker, q)
		}
	}
}

// enter returns the place, and the connection that holds it.
func (c *Client) enter(ctx context.Context, worker string, q question) (p place, held io.ReadCloser, err error) {
	res, err := c.post(ctx, worker, enterPath, q)
	if err != nil {
		return p, nil, err
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, mostBody)).Decode(&p); err != nil {
		_ = res.Body.Close()
		return p, nil, unreachable(err)
	}
	return p, res.Body, nil
}

// Changes returns the changes of a session as a patch.
func (c *Client) Changes(ctx context.Context, worker string, of turn.HandsSession) ([]byte, error) {
	res, err := c.post(ctx, worker, changesPath, question{Key: of.Key, Name: of.Name})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	patch, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer+1))
	if err == nil && len(patch) > mostAnswer {
		err = fmt.Errorf("the changes have more than %d MiB", mostAnswer>>20)
	}
	return patch, err
}

// End closes a session that no turn has.
func (c *Client) End(ctx context.Context, worker string, of turn.HandsSession) error {
	res, err := c.post(ctx, worker, endPath, question{Key: of.Key, Name: of.Name})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// post makes a request. The caller closes the body of the answer; another status than 200 is an error.
func (c *Client) post(ctx context.Context, worker, path string, q question) (*http.Response, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://hands"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// The end of ctx ends a request without an answer, and not the body of one, which outlives Enter.
	asking, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(ctx, cancel)
	res, err := c.transport(worker).RoundTrip(r.WithContext(asking))
	answered := stop()
	switch {
	case err != nil:
		cancel()
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, unreachable(err)
	case !answered:
		_ = res.Body.Close()
		return nil, context.Cause(ctx)
	}
	res.Body = &cancelled{res.Body, cancel}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	var why refusal
	if err := json.NewDecoder(io.LimitReader(res.Body, mostBody)).Decode(&why); err != nil || why.Words == "" {
		return nil, unreachable(errors.New(res.Status))
	}
	return nil, refused(why)
}

// cancelled is a body whose Close ends its connection.
type cancelled struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (c *cancelled) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}

func (c *Client) transport(worker string) *http.Transport {
	socket := filepath.Join(c.Sockets, filepath.Base(paths.HandsSocket(worker)))
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
}

func unreachable(err error) error {
	return &turn.HandsError{Code: turn.HandsUnavailable, Retry: 5 * time.Second,
		Words: "the hands of the worker do not answer: " + err.Error()}
}

// NewClient asks the units of this machine.
func NewClient(generated string) *Client {
	return &Client{Generated: generated, Sockets: paths.HandsSockets}
}
