package apitest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Begin posts a request in a goroutine of its own.
func (r *Rig) Begin(t testing.TB, body string) <-chan *http.Response {
	t.Helper()
	resp := make(chan *http.Response, 1)
	go func() { resp <- r.Chatting(t, body) }()
	return resp
}

// Held is a rig where a turn was refused on a, and waits for b, which is busy until gate.
func (f *Fleet) Held(t testing.TB, gate <-chan struct{}) (r *Rig, busy, refused <-chan *http.Response, cancel func()) {
	t.Helper()
	f.Let("b", Gated(gate, "", "I am b"))
	f.Refuses("a", UsedUp)
	r = f.Rig(t, func(o *Options) { o.Max = 1 })
	require.NoError(t, r.Pool.AccountStore().Switch("b"))
	busy = r.Begin(t, Conversation("", "busy", 1))
	Await(t, Tick(t), func() bool { return len(f.Got("b")) == 1 })
	require.NoError(t, r.Pool.AccountStore().Switch("a"))
	ctx, cancel := context.WithCancel(t.Context())
	resp := make(chan *http.Response, 1)
	go func() {
		defer close(resp)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions",
			strings.NewReader(Conversation("", "refused", 1)))
		assert.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if answer, err := r.Client.Do(req); err == nil {
			resp <- answer
		}
	}()
	Await(t, Tick(t), func() bool { return r.Report().Queue.Depth == 1 && len(f.Got("a")) == 1 })
	return r, busy, resp, cancel
}
