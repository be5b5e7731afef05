package integration

import (
	"bufio"
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

	"codex-proxy/test/modelserver"
)

// load is clients that send requests without a pause, every other client on a new
// connection each time.
type load struct {
	stop func()
	done sync.WaitGroup

	mu     sync.Mutex
	kept   sample // latencies on kept connections
	opened sample // latencies on new ones
	failed []string
}

const answer = "hello from the model server"

func (b *bed) load(clients int) *load {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	l := &load{stop: stop}
	b.t.Cleanup(func() { stop(); l.done.Wait() })
	for i := range clients {
		l.done.Go(func() {
			client := b.newClient()
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				l.ask(client, i%2 == 0, i%4 < 2)
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
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	req := chatRequest(ctx, stream, "hi")
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

func chatRequest(ctx context.Context, stream bool, prompt string) *http.Request {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
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
	require.Eventually(t, func() bool { return count() >= goal }, bound, 10*time.Millisecond)
}

// held is a stream whose end a gate of the model server holds back.
type held struct {
	gate string
	res  *http.Response
	body *bufio.Reader
	head string
}

// hold opens a stream and returns after its first text. The stream may take two minutes,
// or the given time.
func (b *bed) hold(gate string, within ...time.Duration) *held {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), append(within, 2*bound)[0])
	b.t.Cleanup(cancel)
	res, err := b.newClient().Do(chatRequest(ctx, true, "[[text first]][[gate "+gate+"]][[text  and last]]"))
	require.NoError(b.t, err)
	h := &held{gate: gate, res: res, body: bufio.NewReader(res.Body)}
	for !strings.Contains(h.head, "first") {
		line, err := h.body.ReadString('\n')
		require.NoError(b.t, err, h.head)
		h.head += line
	}
	_, err = b.models.Wait(ctx, modelserver.AtGate(gate, 1))
	require.NoError(b.t, err)
	return h
}

// rest is the rest of the stream.
func (h *held) rest(t *testing.T) string {
	t.Helper()
	rest, err := io.ReadAll(h.body)
	assert.NoError(t, err)
	assert.NoError(t, h.res.Body.Close())
	return string(rest)
}

// finish opens the gate and asserts that the stream is complete.
func (h *held) finish(b *bed) {
	b.t.Helper()
	b.models.Release(h.gate)
	rest := h.rest(b.t)
	assert.Contains(b.t, rest, " and last")
	assert.Contains(b.t, rest, `"finish_reason":"stop"`)
	assert.Contains(b.t, rest, "[DONE]")
}
