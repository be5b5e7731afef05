package workerhands

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// Generated is the directory of generated units: a worker with hands has a drop-in there. Sockets is the directory
	// of the units' sockets.
	Generated, Sockets string
	// Alive is how long a unit that is asked may take to start and to answer; 0: as long as it does on a busy machine.
	Alive time.Duration
}

// longestStart is Client.Alive by default: longer than the delay before a restart of the unit.
const longestStart = 15 * time.Second

// again is the pause before the next try to have a session of which the unit has lost the connection.
const again = 200 * time.Millisecond

// toldBound bounds the notice that a client knows of a checkout.
const toldBound = 2 * time.Second

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
	told := func() { // without an answer, the next turn reports the checkout, too
		noting, cancel := context.WithTimeout(staying, toldBound)
		defer cancel()
		res, err := c.send(noting, worker, toldPath, question{Key: q.Key, Name: q.Name, Checkout: p.Checkout})
		if err == nil {
			_ = res.Body.Close()
		}
	}
	return &turn.Stay{New: p.New && !q.OfTurn, Told: told, Leave: func() { stop(); <-left },
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
		return p, nil, unreachable(worker, err)
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
	return io.ReadAll(io.LimitReader(res.Body, hands.MostChanges)) // it has no more
}

// End closes a session that no turn has.
func (c *Client) End(ctx context.Context, worker string, of turn.HandsSession) error {
	res, err := c.post(ctx, worker, endPath, question{Key: of.Key, Name: of.Name})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// post makes a request, once the unit serves. The caller closes the body of the answer; another status than 200 is an
// error.
func (c *Client) post(ctx context.Context, worker, path string, q question) (*http.Response, error) {
	alive, cancel := context.WithTimeoutCause(ctx, cmp.Or(c.Alive, longestStart), errors.New("no answer in time"))
	defer cancel()
	res, err := c.send(alive, worker, alivePath, question{})
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), unreachable(worker, err))
	}
	_ = res.Body.Close()
	if res, err = c.send(ctx, worker, path, q); err != nil {
		return nil, cmp.Or(context.Cause(ctx), unreachable(worker, err))
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	var why refusal
	if err := json.NewDecoder(io.LimitReader(res.Body, mostBody)).Decode(&why); err != nil || why.Words == "" {
		return nil, unreachable(worker, errors.New(res.Status))
	}
	return nil, refused(why)
}

// send makes a request, and returns the answer to it. The end of ctx ends the wait, with its cause.
func (c *Client) send(ctx context.Context, worker, path string, q question) (*http.Response, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://hands"+path,
		bytes.NewReader(body))
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
		return nil, cmp.Or(context.Cause(ctx), err)
	case !answered:
		_ = res.Body.Close()
		return nil, context.Cause(ctx)
	}
	res.Body = &cancelled{res.Body, cancel}
	return res, nil
}

// cancelled is the body of an answer. Its Close ends the connection.
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
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &http.Transport{DisableKeepAlives: true, DialContext: dial}
}

// unreachable is the error of a unit that does not serve.
func unreachable(worker string, err error) error {
	words := fmt.Sprintf("%s does not serve: %v; `systemctl status %[1]s` and `codex-proxy doctor` have the reason",
		units.Hands(worker), err)
	if errors.Is(err, fs.ErrNotExist) { // codex has started before the worker had hands, or its file lost them
		words = "the worker runs without its hands: " + remedy(worker)
	}
	return &turn.HandsError{Code: turn.HandsUnavailable, Words: words, Retry: 5 * time.Second}
}

// NewClient asks the units of this machine.
func NewClient(generated string) *Client {
	return &Client{Generated: generated, Sockets: paths.HandsSockets}
}
