package recent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/listing"
	"codex-proxy/notify/handoff"
	"codex-proxy/probes"
	"codex-proxy/proxy"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/turn"
)

func idle() *Recent {
	return New(Settings{Look: func() Gauges { return Gauges{} }, Restarts: func() uint64 { return 0 },
		Changed: func() {}})
}

func ended(at time.Time, outcome string, text float64) Request {
	return Request{At: at, ID: "r", Outcome: outcome, Attempts: 1, FirstTextMS: text, InputTokens: 3, OutputTokens: 2}
}

func TestHistory(t *testing.T) {
	r := idle()
	began := time.Date(2026, 1, 31, 10, 0, 3, 0, time.UTC)
	for i := range 100 {
		r.Add(ended(began, "ok", float64(100+i)))
	}
	r.Add(ended(began.Add(time.Second), "rate_limit_exceeded", 0))
	r.Add(ended(began.Add(-time.Hour), "ok", 0)) // the clock was set back
	r.Add(Request{At: began.Add(35 * time.Second), Outcome: "invalid_api_key"})
	got := r.History()
	assert.Equal(t, 10, got.PeriodS)
	require.Len(t, got.Points, 4, "the points between have no request")
	first := got.Points[0]
	assert.Equal(t, began.Truncate(Period), first.At)
	assert.Equal(t, 102, first.Turns)
	assert.Equal(t, map[string]int{"rate_limit_exceeded": 1}, first.Errors)
	assert.InEpsilon(t, 150, first.FirstTextP50MS, 0.1)
	assert.InEpsilon(t, 195, first.FirstTextP95MS, 0.1)
	assert.Equal(t, int64(306), first.InputTokens)
	assert.Equal(t, Point{At: first.At.Add(Period)}, got.Points[1])
	assert.Zero(t, got.Points[3].Turns, "a request without a turn is none")
	r.Add(ended(began.Add(time.Hour), "ok", 1))
	got = r.History()
	require.Len(t, got.Points, maxPoints, "of half an hour, whatever the gap")
	assert.Zero(t, got.Points[0].Turns)
	assert.Equal(t, 1, got.Points[maxPoints-1].Turns)
}

// Neither requests nor codes of errors are unbounded, and all of it is far below a mebibyte.
func TestBounds(t *testing.T) {
	r := idle()
	now := time.Now()
	for i := range 3 * maxRequests {
		at := now.Add(time.Duration(i) * 2 * time.Second)
		for range 3 {
			r.Add(ended(at, fmt.Sprintf("code_%d", i%100), float64(i)))
		}
		r.Add(ended(now, fmt.Sprintf("code_%d", i), float64(i)))
	}
	all := r.Requests().Requests
	require.Len(t, all, maxRequests)
	assert.Equal(t, r.number, all[maxRequests-1].Number)
	assert.Equal(t, r.number-maxRequests+1, all[0].Number)
	points := r.History()
	require.Len(t, points.Points, maxPoints)
	for _, p := range points.Points {
		assert.LessOrEqual(t, len(p.Errors), maxCodes+1)
	}
	text, err := json.Marshal(left{Requests: all, Points: r.points})
	require.NoError(t, err)
	assert.Less(t, len(text), 1<<20)
	long := RequestOf("BREW", &proxy.Exchange{Record: proxy.Record{Model: strings.Repeat("x", 1<<20)}})
	assert.Less(t, len(long.Model), 200)
	assert.Equal(t, "other", long.Method)
}

// A program without a key pushes no request of a key out, and its own requests are bounded, over reloads, too.
func TestRequestsWithoutAKey(t *testing.T) {
	old, fresh := idle(), idle()
	now := time.Now()
	alice := RequestOf("POST", &proxy.Exchange{Key: auth.Key{Name: "alice"}, Record: proxy.Record{Status: 404}})
	old.Add(alice)
	var c Cursor
	_, _, _ = old.Since(&c)
	for range 3 * maxRequests {
		r := RequestOf("POST", &proxy.Exchange{Record: proxy.Record{Status: 401, Outcome: "invalid_api_key"}})
		r.At = now
		old.Add(r)
	}
	old.Add(ended(now, "ok", 1))
	requests, _, _ := old.Since(&c)
	require.Len(t, requests, maxOutside+1, "a reader gets the newest")
	assert.False(t, requests[maxOutside].Outside, "in their order")
	require.NoError(t, old.Leave(pass(t, fresh)))
	all := fresh.Requests().Requests
	require.Len(t, all, maxOutside+2)
	assert.Equal(t, "alice", all[0].Key)
	errors := 0
	for _, p := range fresh.History().Points {
		errors += p.Errors["invalid_api_key"]
	}
	assert.Equal(t, 3*maxRequests, errors, "all of them count")
	open := RequestOf("POST", &proxy.Exchange{Record: proxy.Record{Status: 200, Outcome: "ok"}})
	assert.False(t, open.Outside, "without keys, programs of this machine are let in")
}

func TestRequestOf(t *testing.T) {
	began := time.Now().Add(-time.Second)
	x := &proxy.Exchange{Key: auth.Key{Name: "alice"}, Record: proxy.Record{
		ID: "req_1", Began: began, Route: "/v1/chat/completions", Model: "gpt-5", Stream: true, Status: 200,
		Outcome: "ok", Detail: "the secret plan", FirstByte: began.Add(20 * time.Millisecond),
		Turn: turn.Report{Worker: "a", Attempts: 1, FirstText: began.Add(70 * time.Millisecond)},
	}}
	r := RequestOf("POST", x)
	assert.GreaterOrEqual(t, r.DurationMS, 1000.0)
	r.At, r.DurationMS = time.Time{}, 0
	assert.Equal(t, Request{ID: "req_1", Method: "POST", Route: "/v1/chat/completions", Status: 200, Outcome: "ok",
		Key: "alice", Model: "gpt-5", Worker: "a", Stream: true, Attempts: 1, TTFBMS: 20, FirstTextMS: 70}, r)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "secret", "the detail quotes the model endpoint")
}

// A reader gets each request once, and each point until it is over.
// The turns in flight are those that run, without the requests that wait.
func TestGaugesOf(t *testing.T) {
	g := GaugesOf(probes.Snapshot{Queue: probes.Queue{Depth: 40}, Workers: []probes.Worker{{Inflight: 3}, {Inflight: 1}}})
	assert.Equal(t, Gauges{Queue: 40, InFlight: 4}, g)
}

// A model of a client reaches a terminal without control characters, in one line.
func TestTableIsPrintable(t *testing.T) {
	const model = "m\x1b]52;c;eA==\a\u009b2J\tx\n12:00:00\u202e"
	r := RequestOf("POST", &proxy.Exchange{Record: proxy.Record{Model: model}})
	assert.Equal(t, "m]52;c;eA==2Jx12:00:00", r.Model)
	for _, r := range []Request{r, {Model: model, ID: model, Outcome: model, Route: model, Key: model, Worker: model}} {
		var to strings.Builder
		require.NoError(t, writeTable(listing.Paper{}, &to, Requests{[]Request{r}}, time.Now()))
		assert.Equal(t, 2, strings.Count(to.String(), "\n"), to.String())
		assert.Equal(t, to.String(), strings.Map(func(r rune) rune {
			if r != '\n' && !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, to.String()))
	}
	assert.Equal(t, strings.Repeat("x", maxWord-1)+"…", word(strings.Repeat("x", maxWord-1)+"é"), "no half of a rune")
}

func TestSince(t *testing.T) {
	r := idle()
	now := time.Date(2026, 1, 31, 10, 0, 3, 0, time.UTC)
	var c Cursor
	r.Add(ended(now, "ok", 1))
	requests, history, whole := r.Since(&c)
	assert.True(t, whole)
	assert.Len(t, requests, 1)
	assert.Len(t, history.Points, 1)
	r.Add(ended(now, "ok", 1))
	r.Add(ended(now.Add(Period), "ok", 1))
	requests, history, whole = r.Since(&c)
	assert.False(t, whole)
	assert.Len(t, requests, 2)
	require.Len(t, history.Points, 2)
	assert.Equal(t, 2, history.Points[0].Turns)
	requests, history, _ = r.Since(&c)
	assert.Empty(t, requests)
	assert.Len(t, history.Points, 1, "the last one may change")
	for range 3 * maxRequests {
		r.Add(ended(now.Add(Period), "ok", 1))
	}
	requests, _, _ = r.Since(&c)
	assert.Len(t, requests, maxRequests, "a reader that has missed some gets those that are there")
}

// pass carries messages between two processes, as the sockets of a reload do.
func pass(t *testing.T, to *Recent) func(handoff.Kind, any, ...int) error {
	return func(kind handoff.Kind, body any, fds ...int) error {
		m := handoff.Message{Kind: kind}
		var err error
		if m.Body, err = json.Marshal(body); err != nil {
			return err
		}
		for _, fd := range fds {
			theirs, err := unix.Dup(fd)
			require.NoError(t, err)
			m.Files = append(m.Files, os.NewFile(uintptr(theirs), "passed"))
		}
		return to.Adopt(m)
	}
}

// No request and no point is lost over reloads, also of turns that end in a process that has been replaced.
func TestReload(t *testing.T) {
	now := time.Now().UTC()
	oldest, old, fresh := idle(), idle(), idle()
	oldest.Add(ended(now.Add(-time.Minute), "ok", 100))
	oldest.Add(ended(now, "ok", 100))
	old.Add(ended(now, "upstream_error", 300))
	var c Cursor
	_, _, _ = old.Since(&c)
	require.NoError(t, oldest.Leave(pass(t, old)))
	requests, history, whole := old.Since(&c)
	assert.True(t, whole, "a reader begins anew")
	assert.Len(t, requests, 3)
	require.NoError(t, old.Leave(pass(t, fresh)))
	oldest.Add(ended(now, "ok", 100)) // a turn that was in flight
	for name, r := range map[string]*Recent{"old": old, "fresh": fresh} {
		all := r.Requests().Requests
		require.Len(t, all, 4, name)
		for i, req := range all {
			assert.Equal(t, uint64(i+1), req.Number, name)
		}
		turns, failed := 0, 0
		for _, p := range r.History().Points {
			turns += p.Turns
			failed += p.Errors["upstream_error"]
		}
		assert.Equal(t, 4, turns, name)
		assert.Equal(t, 1, failed, name)
	}
	assert.NotEmpty(t, history.Points)
	refuses := func(handoff.Kind, any, ...int) error { return fmt.Errorf("it is older") }
	assert.Error(t, fresh.Leave(refuses), "it is told to the journal")
	assert.Error(t, fresh.Adopt(handoff.Message{Kind: handoff.Recent}))
	assert.Error(t, fresh.Adopt(handoff.Message{Kind: handoff.Ended, Body: json.RawMessage(`[]`)}))
}

// The workers are looked at each ten seconds, and restarts count where they have happened.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gauges atomic.Pointer[Gauges]
		var restarts, changed atomic.Uint64
		gauges.Store(&Gauges{})
		restarts.Store(7)
		r := New(Settings{Look: func() Gauges { return *gauges.Load() }, Restarts: restarts.Load, Changed: func() { changed.Add(1) }})
		ended := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		gauges.Store(&Gauges{Queue: 3, InFlight: 2})
		restarts.Store(9)
		time.Sleep(Period + time.Second) //nolint:forbidigo // the clock of the bubble
		synctest.Wait()
		p := r.History().Points
		require.Len(t, p, 1)
		assert.Equal(t, Point{At: p[0].At, Queue: 3, InFlight: 2, Restarts: 2}, p[0])
		assert.EqualValues(t, 1, changed.Load())
		cancel()
		assert.NoError(t, <-ended)
	})
}
