package turn_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/turn"
)

// fakeHands have the sessions of the workers a and b.
type fakeHands struct {
	mu      sync.Mutex
	entered []string
	open    int            // stays
	runs    map[string]int // of the exec-servers of a session
	full    error
	fails   map[string]error // by the worker
	told    map[string]bool
	forgets bool          // a session is new once
	wait    chan struct{} // Enter waits until it is closed; nil: it does not
}

func (*fakeHands) Of(worker string) bool { return worker == "a" || worker == "b" }

func (h *fakeHands) Enter(ctx context.Context, worker string, of turn.HandsSession) (*turn.Stay, error) {
	if h.wait != nil {
		select {
		case <-h.wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := cmp.Or(h.full, h.fails[worker]); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%s/%s/%s", worker, of.Key, of.Name)
	isNew := !h.told[id] && (!h.forgets || !slices.Contains(h.entered, id))
	h.entered = append(h.entered, id)
	h.open++
	return &turn.Stay{New: isNew, Environment: appserver.Environment{ID: "hands-0", Dir: "/workspace", Token: "t",
		URL: fmt.Sprintf("ws://127.0.0.1:1/%s/%d", id, h.runs[of.Name])}, Leave: func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open--
	}, Told: func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.told = map[string]bool{id: true}
	}}, nil
}

func (h *fakeHands) restart(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = map[string]int{name: h.runs[name] + 1}
}

// handsRig has a worker without hands and two with them.
func handsRig(t *testing.T, h *fakeHands, handler appservertest.Handler, changes ...func(*apitest.Options)) *apitest.Rig {
	t.Helper()
	others := map[string]*appservertest.Server{}
	for _, name := range []string{"a", "b", "c"} {
		others[name] = &appservertest.Server{Handler: handler}
	}
	base := func(o *apitest.Options) { o.Others, o.Hands = others, h }
	return apitest.NewRig(t, nil, append([]func(*apitest.Options){base}, changes...)...)
}

// where answers with the URL of the environment of the turn.
func where(_ context.Context, turn *appservertest.Turn) error {
	url := "nowhere"
	for _, e := range turn.Request.Environments {
		url = e.ID + " " + e.URL + " " + e.Token + " " + e.Dir
	}
	turn.Text(url)
	return nil
}

const sessionHeader = "X-Codex-Session"

// A session stays on one worker with hands, and the same name with another key is another session.
func TestSessionsOfHands(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann", "bob")
	h := &fakeHands{}
	r := handsRig(t, h, where, func(o *apitest.Options) { o.Keys = keys })
	ask := func(key int, name string) (*http.Response, string) {
		res := r.Chatting(t, apitest.Hello(""), "Authorization", "Bearer "+secrets[key], sessionHeader, name)
		return res, apitest.Text(t, res)
	}
	for i := range 4 {
		res, text := ask(0, "fix-1")
		assert.Regexp(t, `hands-0 ws://127.0.0.1:1/[ab]/ann/fix-1/0 t /workspace`, text)
		assert.Equal(t, "fix-1", res.Header.Get(sessionHeader))
		assert.Equal(t, map[bool]string{true: "true", false: ""}[i == 0], res.Header.Get("X-Codex-Session-New"))
	}
	_, text := ask(1, "fix-1")
	assert.Contains(t, text, "/bob/fix-1/")
	h.mu.Lock()
	assert.Len(t, slices.Compact(slices.Clone(h.entered[:4])), 1, "one worker")
	h.mu.Unlock()
	assert.Eventually(t, func() bool { // a turn leaves after its answer
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.open == 0
	}, apitest.Bound, time.Millisecond)
}

// A turn that is lost has told no client of a new checkout.
func TestANewSessionOfALostTurn(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		handler, _ := apitest.Once(apitest.Disconnect)
		h := &fakeHands{forgets: forgets}
		r := handsRig(t, h, handler, func(o *apitest.Options) { delete(o.Others, "b") })
		res := r.Chatting(t, apitest.Hello(""), sessionHeader, "x")
		assert.Equal(t, "2", res.Header.Get("X-Codex-Attempts"))
		assert.Equal(t, "true", res.Header.Get("X-Codex-Session-New"), "forgets: %t", forgets)
		res = r.Chatting(t, apitest.Hello(""), sessionHeader, "x")
		assert.Empty(t, res.Header.Get("X-Codex-Session-New"))
	}
}

// A request without a session has one for the turn, if its worker has hands.
func TestTurnsWithoutASession(t *testing.T) {
	h := &fakeHands{}
	r := handsRig(t, h, where, func(o *apitest.Options) { delete(o.Others, "c") })
	res := r.Chatting(t, apitest.Hello(""))
	assert.Regexp(t, `ws://127.0.0.1:1/[ab]///0`, apitest.Text(t, res))
	assert.Empty(t, res.Header.Get(sessionHeader))
	plain := apitest.NewRig(t, &appservertest.Server{Handler: where})
	assert.Contains(t, apitest.Text(t, plain.Chatting(t, apitest.Hello(""))), "nowhere")
}

// A turn without a named session runs on another worker if one has none for it. A named session has one worker.
func TestWorkersWithoutASession(t *testing.T) {
	down := &turn.HandsError{Code: turn.HandsUnavailable, Words: "a is down", Retry: time.Minute}
	h := &fakeHands{fails: map[string]error{"a": down}}
	r := handsRig(t, h, where, func(o *apitest.Options) { delete(o.Others, "c") })
	for range 4 {
		res := r.Chatting(t, apitest.Hello(""))
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Contains(t, apitest.Text(t, res), "ws://127.0.0.1:1/b///0")
	}
	statuses := map[int]bool{}
	for i := range 16 {
		res := r.Chatting(t, apitest.Hello(""), sessionHeader, fmt.Sprintf("s%d", i))
		statuses[res.StatusCode] = true
	}
	assert.Equal(t, map[int]bool{http.StatusOK: true, http.StatusServiceUnavailable: true}, statuses)
	h.full = &turn.HandsError{Code: turn.HandsFull, Words: "full", Retry: time.Minute}
	res := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	assert.Equal(t, "sessions_full", apitest.Failure(t, apitest.Text(t, res)).Error.Code)
	assert.Eventually(t, func() bool { return r.Pool.Inflight() == 0 }, apitest.Bound, time.Millisecond)

	h.full = nil // the other worker lacks the model
	r = handsRig(t, h, where, func(o *apitest.Options) {
		delete(o.Others, "c")
		o.Others["b"].Models = []appservertest.Model{{ID: "another"}}
	})
	res = r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Equal(t, "hands_unavailable", apitest.Failure(t, apitest.Text(t, res)).Error.Code)
}

func TestRefusedSessions(t *testing.T) {
	h := &fakeHands{}
	r := handsRig(t, h, where)
	for name, code := range map[string]string{"": "invalid_session", "../x": "invalid_session", "a b": "invalid_session"} {
		res := r.Chatting(t, apitest.Hello(""), sessionHeader, name)
		assert.Equal(t, http.StatusBadRequest, res.StatusCode)
		assert.Equal(t, code, apitest.Failure(t, apitest.Text(t, res)).Error.Code, name)
	}
	plain := apitest.NewRig(t, &appservertest.Server{Handler: where})
	assert.Equal(t, "no_hands", apitest.Failure(t, apitest.Text(t, plain.Chatting(t, apitest.Hello(""), sessionHeader, "x"))).Error.Code)
	for code, status := range map[turn.HandsCode]int{turn.HandsFull: 429, turn.HandsOfKeyFull: 429, turn.HandsUnavailable: 503} {
		h.full = &turn.HandsError{Code: code, Words: "why", Retry: time.Minute}
		res := r.Chatting(t, apitest.Hello(""), sessionHeader, "x")
		assert.Equal(t, status, res.StatusCode)
		assert.Equal(t, "60", res.Header.Get("Retry-After"))
		assert.Equal(t, string(code), apitest.Failure(t, apitest.Text(t, res)).Error.Code)
	}
}

// A kept thread belongs to a session and a run of its exec-server: another one begins a thread of its own.
func TestThreadsOfSessions(t *testing.T) {
	k, h := &apitest.Talker{}, &fakeHands{}
	r := handsRig(t, h, k.Answer, apitest.WithThreads(4))
	r.Ask(t, apitest.Conversation("", "", 1), sessionHeader, "x")
	r.Ask(t, apitest.Conversation("", "", 2), sessionHeader, "x")
	assert.Equal(t, k.Threads[0], k.Threads[1])
	r.Ask(t, apitest.Conversation("", "", 3), sessionHeader, "y")
	h.restart("x")
	r.Ask(t, apitest.Conversation("", "", 3), sessionHeader, "x")
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(k.Threads))), 3)
}

// A stream is kept open while a session starts.
func TestWaitForASession(t *testing.T) {
	h := &fakeHands{wait: make(chan struct{})}
	r := handsRig(t, h, where, func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	res := r.Chatting(t, apitest.Hello(apitest.Streaming), sessionHeader, "x") // the header comes with a comment
	assert.Equal(t, http.StatusOK, res.StatusCode)
	close(h.wait)
	assert.Contains(t, apitest.Text(t, res), "/x/0")
}
