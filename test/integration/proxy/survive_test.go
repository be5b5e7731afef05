package proxy

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

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// askAll posts n requests at the same time, every second one streamed. The returned
// function waits for their outcomes.
func askAll(b *bed.Bed, ctx context.Context, n int, prompt func(i int) string) (outcomes func() []bed.Outcome) {
	all := make([]bed.Outcome, n)
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() { all[i] = b.Ask(ctx, i%2 == 0, prompt(i)) })
	}
	return func() []bed.Outcome { g.Wait(); return all }
}

func assertComplete(t *testing.T, o bed.Outcome, stream bool, want, attempts string) {
	t.Helper()
	require.NoError(t, o.Err)
	assert.Equal(t, http.StatusOK, o.Status, o.Body)
	assert.Equal(t, attempts, o.Attempts)
	assert.Contains(t, o.Body, `"content":"`+want+`"`)
	assert.Contains(t, o.Body, `"finish_reason":"stop"`)
	assert.NotContains(t, o.Body, `"error"`)
	if stream {
		assert.Equal(t, 1, strings.Count(o.Body, `"content":"`+want+`"`))
		assert.True(t, strings.HasSuffix(o.Body, "data: [DONE]\n\n"), o.Body)
	}
}

// seen counts the prompts at the model endpoint.
func seen(b *bed.Bed, prompt string) int {
	n := 0
	for _, turn := range b.Models.Turns() {
		if strings.Contains(string(turn.Body.Input[len(turn.Body.Input)-1]), prompt) {
			n++
		}
	}
	return n
}

// kill -9 of codex while no client has a byte of its answer: no client notices.
func TestKillBeforeTheFirstByte(t *testing.T) { bed.BothSuites(t, testKillBeforeTheFirstByte) }

func testKillBeforeTheFirstByte(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Patient)
	b.Start()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	const turns = 16
	held := func(i int) string { return fmt.Sprintf("held-%02d [[gate go]] [[text answer-%02d]]", i, i) }
	lost := askAll(b, ctx, turns, held)
	_, err := b.Models.Wait(ctx, modelserver.AtGate("go", turns))
	require.NoError(t, err)
	b.KillCodex()

	// Requests that come while the worker is down wait for it.
	late := func(i int) string { return fmt.Sprintf("late-%02d [[text late answer-%02d]]", i, i) }
	waiting := askAll(b, ctx, turns, late)
	_, err = b.Models.Wait(ctx, modelserver.CutAtLeast(turns)) // so that no first try passes the gate
	require.NoError(t, err)
	b.Models.Release("go")

	var again, waited bed.Sample
	for i, o := range lost() {
		prompt, _, _ := strings.Cut(held(i), " ")
		again = append(again, o.Took)
		assertComplete(t, o, i%2 == 0, fmt.Sprintf("answer-%02d", i), "2")
		assert.Equal(t, 2, seen(b, prompt), "as often at the model endpoint as it was tried")
	}
	for i, o := range waiting() {
		waited = append(waited, o.Took)
		assertComplete(t, o, i%2 == 0, fmt.Sprintf("late answer-%02d", i), "1")
	}
	status, report := b.Readyz()
	assert.Equal(t, http.StatusOK, status)
	assert.Zero(t, report.Queue.Depth)
	assert.Equal(t, 10000, report.Queue.Limit)
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), fmt.Sprintf("codex_turn_retries_total{reason=\"worker_exited\"} %d\n", turns))
	t.Logf("with a kill in between %s; sent while the worker was down %s", again, waited)
}

// An operator's restart of the worker under load is latency, too, for every client that
// has nothing of the answer yet.
func TestRestartOfAWorkerIsLatency(t *testing.T) { bed.BothSuites(t, testRestartOfAWorkerIsLatency) }

func testRestartOfAWorkerIsLatency(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Patient)
	b.Start()
	const restarts, clients = 3, 6
	ctx, cancel := context.WithTimeout(t.Context(), restarts*bed.Bound)
	defer cancel()
	var took bed.Sample
	for range restarts {
		restarted := make(chan struct{})
		each := make([][]bed.Outcome, clients)
		var g sync.WaitGroup
		for c := range each {
			g.Go(func() { each[c] = askUntil(b, ctx, restarted) })
		}
		b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
		close(restarted)
		g.Wait()
		for _, outcomes := range each {
			for _, o := range outcomes {
				assertComplete(t, o, false, "answer", o.Attempts)
				took = append(took, o.Took)
			}
		}
	}
	t.Logf("requests during %d restarts of the worker: %s", restarts, took)
}

// askUntil posts requests until done, and then one more.
func askUntil(b *bed.Bed, ctx context.Context, done <-chan struct{}) (all []bed.Outcome) {
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		all = append(all, b.Ask(ctx, false, "[[text answer]]"))
	}
	return all
}

// beginStream reads a stream up to its first text. The returned function waits for the
// rest and returns the time of its end.
func beginStream(b *bed.Bed, ctx context.Context, prompt string) (rest func() (string, time.Time)) {
	b.T.Helper()
	res, err := b.Post(ctx, true, prompt)
	require.NoError(b.T, err)
	assert.Equal(b.T, "1", res.Header.Get("X-Codex-Attempts"))
	body := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, `"content":"first"`); {
		line, err = body.ReadString('\n')
		require.NoError(b.T, err)
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
func TestDisconnectInterrupts(t *testing.T) {
	t.Parallel()
	testDisconnectInterrupts(t, bed.Newest)
}

func testDisconnectInterrupts(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	for _, tc := range []struct {
		name, prompt string
		stream       bool
	}{
		{"after text", "[[text first]] [[silence]]", true},
		{"before text", "[[silence]]", true},
		{"whole", "[[silence]]", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var took bed.Sample
			for range 20 {
				took = append(took, disconnect(b, tc.stream, tc.prompt))
			}
			t.Logf("disconnect to the cut at the model endpoint: %s", took)
			assertCut(t, took)
		})
	}
	t.Run("while it starts", func(t *testing.T) { disconnectEarly(b, t) })
}

// disconnectEarly disconnects at one moment after the other of the start of a turn,
// beginning when the request has a slot on the worker. codex answers an interrupt that
// comes before turn/started with an error and runs the turn all the same; such turns
// must be cut, too.
func disconnectEarly(b *bed.Bed, t *testing.T) {
	wait, stop := context.WithTimeout(t.Context(), bed.Bound)
	defer stop()
	before := len(b.Models.Turns())
	gone := map[string]time.Time{}
	for i := range 20 {
		ctx, cancel := context.WithCancel(wait)
		ended := make(chan bed.Outcome, 1)
		prompt := fmt.Sprintf("early-%02d", i)
		go func() { ended <- b.Ask(ctx, true, prompt+" [[silence]]") }()
		b.Until("taken", func(_ int, r bed.Report) bool { return r.Workers[0].Inflight > 0 })
		bed.Pause(wait, time.Duration(i)*3*time.Millisecond)
		cancel()
		gone[prompt] = time.Now()
		<-ended
		b.Until("given back", func(_ int, r bed.Report) bool { return r.Workers[0].Inflight == 0 })
	}
	require.Equal(t, http.StatusOK, b.Ask(wait, false, "[[text fine]]").Status)
	_, err := b.Models.Wait(wait, func([]modelserver.Request) bool { return b.Models.OpenStreams() == 0 })
	require.NoError(t, err)
	var took bed.Sample
	for _, turn := range b.Models.Turns()[before:] {
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
func assertCut(t *testing.T, took bed.Sample) {
	t.Helper()
	assert.LessOrEqual(t, took.Quantile(0.5), 50*time.Millisecond)
	assert.LessOrEqual(t, took.Quantile(0.85), time.Second)
	assert.LessOrEqual(t, took.Quantile(1), 20*time.Second, "a busy machine, not a turn that goes on")
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// disconnect sends a request, disconnects when the model endpoint has it, and returns
// how long the endpoint took to notice.
func disconnect(b *bed.Bed, stream bool, prompt string) time.Duration {
	b.T.Helper()
	wait, stop := context.WithTimeout(b.T.Context(), bed.Bound)
	defer stop()
	before := len(b.Models.Turns())
	ctx, cancel := context.WithCancel(wait)
	gone := make(chan bed.Outcome, 1)
	if strings.Contains(prompt, "first") {
		rest := beginStream(b, ctx, prompt)
		go func() { rest(); gone <- bed.Outcome{} }()
	} else {
		go func() { gone <- b.Ask(ctx, stream, prompt) }()
	}
	_, err := b.Models.Wait(wait, modelserver.AtLeast(before+1))
	require.NoError(b.T, err)
	at := time.Now()
	cancel()
	<-gone
	turns, err := b.Models.Wait(wait, func(turns []modelserver.Request) bool { return !turns[before].Cut.IsZero() })
	require.NoError(b.T, err)
	return turns[before].Cut.Sub(at)
}
