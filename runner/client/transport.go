package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"syscall"
	"time"

	"codex-proxy/runner/api/wire"
)

// transport sends the requests of a client, and repeats those that failed because the daemon restarts.
type transport struct {
	socket string
	http   http.Client
	// Of again: the first pause between two attempts, and how long they go on.
	pause, patience time.Duration
}

// Close closes the connections that no call uses.
func (t *transport) Close() { t.http.CloseIdleConnections() }

// do sends a request. An answer of 400 or more is an error; the caller closes the body of others.
func (t *transport) do(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := t.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	res, err := t.http.Do(req)
	if err != nil {
		return nil, t.explain(ctx, err)
	}
	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

func (t *transport) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, method, "http://codex-runner/v1"+path, body)
}

// again repeats ask while its error is passing, until the patience since the last progress is over. ask returns whether
// it made progress.
func (t *transport) again(ctx context.Context, ask func() (bool, error)) error {
	pause, end := t.pause, time.Now().Add(t.patience)
	for {
		progress, err := ask()
		if !passing(err) {
			return err
		}
		if progress {
			pause, end = t.pause, time.Now().Add(t.patience)
		}
		if time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, lastPause)
	}
}

// Again calls ask, and again for up to a minute while the daemon cannot be reached. Ask must be harmless if it is done
// twice.
func (t *transport) Again(ctx context.Context, ask func() error) error {
	return t.again(ctx, func() (bool, error) { return false, ask() })
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
func (t *transport) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot connect to %s: %w", t.socket, ErrForbidden)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: %w", t.socket, ErrNotRunning)
	}
	// There was a daemon, and it has ended: net/http has many errors for this.
	return &lostError{err}
}

// lostError is ErrLost with the error of net/http, which is of little use to people.
type lostError struct{ err error }

func (e *lostError) Error() string { return ErrLost.Error() }

func (e *lostError) Unwrap() []error { return []error{ErrLost, e.err} }
