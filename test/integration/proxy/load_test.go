package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// load is clients that send requests one after the other, every other client on a new
// connection each time.
type load struct {
	stop func()
	done sync.WaitGroup

	mu     sync.Mutex
	kept   bed.Sample // latencies on kept connections
	opened bed.Sample // latencies on new ones
	failed []string
}

const answer = "hello from the model server"

// breath is between two requests of a client of a load. Without it, as in `make nightly`, a load takes a processor for as
// long as a test waits for something else.
var breath = time.Duration(nightly.Or(0, 100)) * time.Millisecond

func startLoad(b *bed.Bed, clients int) *load {
	b.T.Helper()
	ctx, stop := context.WithCancel(b.T.Context())
	l := &load{stop: stop}
	b.T.Cleanup(func() { stop(); l.done.Wait() })
	for i := range clients {
		l.done.Go(func() {
			client := bed.NewClient(b)
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				l.ask(client, i%2 == 0, i%4 < 2)
				bed.Pause(ctx, breath)
			}
		})
	}
	return l
}

// ask is one request, which only a bound cuts short.
func (l *load) ask(client *http.Client, anew, stream bool) {
	began := time.Now()
	err := ask(client, anew, stream)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = append(l.failed, fmt.Sprintf("%s new=%t stream=%t after %s: %v", began.Format("05.000"), anew,
			stream, took, err))
	case anew:
		l.opened = append(l.opened, took)
	default:
		l.kept = append(l.kept, took)
	}
}

func ask(client *http.Client, anew, stream bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), bed.Bound)
	defer cancel()
	req := bed.ChatRequest(ctx, stream, "hi")
	req.Close = anew
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !strings.Contains(string(body), answer) || stream &&
		!strings.Contains(string(body), "[DONE]") {
		return fmt.Errorf("%d %s", res.StatusCode, body)
	}
	return nil
}

// end stops the clients after their last answers.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.done.Wait()
	assert.Empty(t, l.failed, "%d of %d failed", len(l.failed), len(l.failed)+len(l.kept)+len(l.opened))
	require.NotEmpty(t, l.opened)
	require.NotEmpty(t, l.kept)
	t.Logf("new connections: %s", l.opened)
	t.Logf("kept connections: %s", l.kept)
}

// reach waits until that many more requests have been answered or have failed.
func (l *load) reach(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.failed) + len(l.kept) + len(l.opened)
	}
	goal := count() + more
	await.True(t, func() bool { return count() >= goal }, bed.Bound)
}
