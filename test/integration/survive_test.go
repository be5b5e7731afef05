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

// outcome is the result of one request for its client.
type outcome struct {
	err      error
	status   int
	attempts string
	body     string
	took     time.Duration
}

// ask posts one chat completion; it may be called from any goroutine.
func (b *bed) ask(ctx context.Context, stream bool, prompt string) outcome {
	began := time.Now()
	res, err := b.post(ctx, stream, prompt)
	if err != nil {
		return outcome{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return outcome{err, res.StatusCode, res.Header.Get("X-Codex-Attempts"), string(body), time.Since(began)}
}

func (b *bed) post(ctx context.Context, stream bool, prompt string) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return b.http.Do(req)
}

// askAll posts n requests at the same time, every second one streamed. The returned
// function waits for their outcomes.
func (b *bed) askAll(ctx context.Context, n int, prompt func(i int) string) (outcomes func() []outcome) {
	all := make([]outcome, n)
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() { all[i] = b.ask(ctx, i%2 == 0, prompt(i)) })
	}
	return func() []outcome { g.Wait(); return all }
}

func assertComplete(t *testing.T, o outcome, stream bool, want, attempts string) {
	t.Helper()
	require.NoError(t, o.err)
	assert.Equal(t, http.StatusOK, o.status, o.body)
	assert.Equal(t, attempts, o.attempts)
	assert.Contains(t, o.body, `"content":"`+want+`"`)
	assert.Contains(t, o.body, `"finish_reason":"stop"`)
	assert.NotContains(t, o.body, `"error"`)
	if stream {
		assert.Equal(t, 1, strings.Count(o.body, `"content":"`+want+`"`))
		assert.True(t, strings.HasSuffix(o.body, "data: [DONE]\n\n"), o.body)
	}
}

// seen counts the prompts at the model endpoint.
func (b *bed) seen(prompt string) int {
	n := 0
	for _, turn := range b.models.Turns() {
		if strings.Contains(string(turn.Body.Input[len(turn.Body.Input)-1]), prompt) {
			n++
		}
	}
	return n
}

// kill -9 of codex while no client has a byte of its answer: no client notices.
func TestKillBeforeTheFirstByte(t *testing.T) { bothSuites(t, testKillBeforeTheFirstByte) }

func testKillBeforeTheFirstByte(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, patient)
	b.start()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	const turns = 16
	held := func(i int) string { return fmt.Sprintf("held-%02d [[gate go]] [[text answer-%02d]]", i, i) }
	lost := b.askAll(ctx, turns, held)
	_, err := b.models.Wait(ctx, modelserver.AtGate("go", turns))
	require.NoError(t, err)
	b.killCodex()

	// Requests that come while the worker is down wait for it.
	late := func(i int) string { return fmt.Sprintf("late-%02d [[text late answer-%02d]]", i, i) }
	waiting := b.askAll(ctx, turns, late)
	_, err = b.models.Wait(ctx, modelserver.CutAtLeast(turns)) // so that no first try passes the gate
	require.NoError(t, err)
	b.models.Release("go")

	var again, waited sample
	for i, o := range lost() {
		prompt, _, _ := strings.Cut(held(i), " ")
		again = append(again, o.took)
		assertComplete(t, o, i%2 == 0, fmt.Sprintf("answer-%02d", i), "2")
		assert.Equal(t, 2, b.seen(prompt), "as often at the model endpoint as it was tried")
	}
	for i, o := range waiting() {
		waited = append(waited, o.took)
		assertComplete(t, o, i%2 == 0, fmt.Sprintf("late answer-%02d", i), "1")
	}
	status, report := b.readyz()
	assert.Equal(t, http.StatusOK, status)
	assert.Zero(t, report.Queue.Depth)
	assert.Equal(t, 10000, report.Queue.Limit)
	_, metrics := b.get("/metrics")
	assert.Contains(t, string(metrics), fmt.Sprintf("codex_turn_retries_total{reason=\"worker_exited\"} %d\n", turns))
	t.Logf("with a kill in between %s; sent while the worker was down %s", again, waited)
}

// An operator's restart of the worker under load is latency, too, for every client that
// has nothing of the answer yet.
func TestRestartOfAWorkerIsLatency(t *testing.T) { bothSuites(t, testRestartOfAWorkerIsLatency) }

func testRestartOfAWorkerIsLatency(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, patient)
	b.start()
	const restarts, clients = 3, 6
	ctx, cancel := context.WithTimeout(t.Context(), restarts*bound)
	defer cancel()
	var took sample
	for range restarts {
		restarted := make(chan struct{})
		each := make([][]outcome, clients)
		var g sync.WaitGroup
		for c := range each {
			g.Go(func() { each[c] = b.askUntil(ctx, restarted) })
		}
		b.MustRun(t, "systemctl", "restart", workerUnit)
		close(restarted)
		g.Wait()
		for _, outcomes := range each {
			for _, o := range outcomes {
				assertComplete(t, o, false, "answer", o.attempts)
				took = append(took, o.took)
			}
		}
	}
	t.Logf("requests during %d restarts of the worker: %s", restarts, took)
}

// askUntil posts requests until done, and then one more.
func (b *bed) askUntil(ctx context.Context, done <-chan struct{}) (all []outcome) {
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		all = append(all, b.ask(ctx, false, "[[text answer]]"))
	}
	return all
}

// beginStream reads a stream up to its first text. The returned function waits for the
// rest and returns the time of its end.
func (b *bed) beginStream(ctx context.Context, prompt string) (rest func() (string, time.Time)) {
	b.t.Helper()
	res, err := b.post(ctx, true, prompt)
	require.NoError(b.t, err)
	assert.Equal(b.t, "1", res.Header.Get("X-Codex-Attempts"))
	body := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, `"content":"first"`); {
		line, err = body.ReadString('\n')
		require.NoError(b.t, err)
	}
	type end struct {
		text string
		at   time.Time
	}
	ended := make(chan end, 1)
	go func() {
		defer res.Body.Close()
		text, _ := io.ReadAll(body)
		ended <- end{string(text), time.Now()}
	}()
	return func() (string, time.Time) { e := <-ended; return e.text, e.at }
}

// The turn of a client that disconnects is cut at the model endpoint at once, in every
// state: it has written, it is silent, or it has just begun.
func TestDisconnectInterrupts(t *testing.T) { bothSuites(t, testDisconnectInterrupts) }

func testDisconnectInterrupts(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	for _, tc := range []struct {
		name, prompt string
		stream       bool
	}{
		{"after text", "[[text first]] [[silence]]", true},
		{"before text", "[[silence]]", true},
		{"whole", "[[silence]]", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var took sample
			for range 20 {
				took = append(took, b.disconnect(tc.stream, tc.prompt))
			}
			t.Logf("disconnect to the cut at the model endpoint: %s", took)
			assertCut(t, took)
		})
	}
	t.Run("while it starts", b.disconnectEarly)
}

// disconnectEarly disconnects at one moment after the other of the start of a turn,
// beginning when the request has a slot on the worker. codex answers an interrupt that
// comes before turn/started with an error and runs the turn all the same; such turns
// must be cut, too.
func (b *bed) disconnectEarly(t *testing.T) {
	wait, stop := context.WithTimeout(t.Context(), bound)
	defer stop()
	before := len(b.models.Turns())
	gone := map[string]time.Time{}
	for i := range 20 {
		ctx, cancel := context.WithCancel(wait)
		ended := make(chan outcome, 1)
		prompt := fmt.Sprintf("early-%02d", i)
		go func() { ended <- b.ask(ctx, true, prompt+" [[silence]]") }()
		b.until("taken", func(_ int, r report) bool { return r.Workers[0].Inflight > 0 })
		pause(wait, time.Duration(i)*3*time.Millisecond)
		cancel()
		gone[prompt] = time.Now()
		<-ended
		b.until("given back", func(_ int, r report) bool { return r.Workers[0].Inflight == 0 })
	}
	require.Equal(t, http.StatusOK, b.ask(wait, false, "[[text fine]]").status)
	_, err := b.models.Wait(wait, func([]modelserver.Request) bool { return b.models.OpenStreams() == 0 })
	require.NoError(t, err)
	var took sample
	for _, turn := range b.models.Turns()[before:] {
		for prompt, at := range gone {
			if strings.Contains(string(turn.Body.Input[len(turn.Body.Input)-1]), prompt) {
				took = append(took, turn.Cut.Sub(latest(at, turn.At)))
			}
		}
	}
	require.NotEmpty(t, took, "none of the turns got as far as the model endpoint")
	t.Logf("%d of %d turns reached the model endpoint, cut after %s", len(took), len(gone), took)
	assertCut(t, took)
}

// assertCut leaves room for a delay that codex sometimes has: it waits 105 ms for its
// own task before it aborts it.
func assertCut(t *testing.T, took sample) {
	t.Helper()
	assert.LessOrEqual(t, took.quantile(0.5), 50*time.Millisecond)
	assert.LessOrEqual(t, took.quantile(0.85), time.Second)
	assert.LessOrEqual(t, took.quantile(1), 20*time.Second, "a busy machine, not a turn that goes on")
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// disconnect sends a request, disconnects when the model endpoint has it, and returns
// how long the endpoint took to notice.
func (b *bed) disconnect(stream bool, prompt string) time.Duration {
	b.t.Helper()
	wait, stop := context.WithTimeout(b.t.Context(), bound)
	defer stop()
	before := len(b.models.Turns())
	ctx, cancel := context.WithCancel(wait)
	gone := make(chan outcome, 1)
	if strings.Contains(prompt, "first") {
		rest := b.beginStream(ctx, prompt)
		go func() { rest(); gone <- outcome{} }()
	} else {
		go func() { gone <- b.ask(ctx, stream, prompt) }()
	}
	_, err := b.models.Wait(wait, modelserver.AtLeast(before+1))
	require.NoError(b.t, err)
	at := time.Now()
	cancel()
	<-gone
	turns, err := b.models.Wait(wait, func(turns []modelserver.Request) bool { return !turns[before].Cut.IsZero() })
	require.NoError(b.t, err)
	return turns[before].Cut.Sub(at)
}
