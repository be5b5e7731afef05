package apitest

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// UntilWaiting runs a request until it waits in the queue, and ends it.
func (r *Rig) UntilWaiting(t testing.TB, request func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); request(ctx) }()
	Await(t, Tick(t), func() bool { return r.Report().Queue.Depth == 1 })
	cancel()
	<-done
	Await(t, Tick(t), func() bool { return r.Report().Queue.Depth == 0 })
}

// Post sends a request until ctx ends.
func (r *Rig) Post(ctx context.Context, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.Client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
