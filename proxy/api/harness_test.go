package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/proxy"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The values of the label reason of codex_turn_retries_total.
const (
	lostWorker      = "worker_exited"
	lostStopping    = "worker_stopping"
	lostOverloaded  = "overloaded"
	lostStart       = "start_timeout"
	lostInterrupted = "interrupted"
)

// bound is the longest that any wait of these tests takes.
const bound = time.Minute

// rig is a server on a real listener, in front of one fake worker.
type rig struct {
	*API
	settings Settings
	pool     *workers.Pool
	url      string
	addr     string
	client   *http.Client
	log      *records
}

// options are what tests change.
type options struct {
	Settings
	worker *appservertest.Server
	others map[string]*appservertest.Server // further workers, by name
	policy accounts.Policy
	max    int
	queue  workers.Queue
	route  *proxy.Route
	probed func() // is called before a report
}

// newRig starts the server and waits for the worker, if there is one.
func newRig(t testing.TB, worker *appservertest.Server, changes ...func(*options)) *rig {
	t.Helper()
	queue := workers.Queue{Limit: 64, Timeout: bound, ReadyTimeout: bound}
	o := options{worker: worker, max: 16, queue: queue, Settings: Settings{
		BodyLimit: 1 << 20, RequestMemory: 256 << 20, QueueTimeout: bound, IdleTimeout: bound,
		Keepalive: bound, Registry: prometheus.NewRegistry(),
	}}
	for _, change := range changes {
		change(&o)
	}
	r := &rig{log: &records{changed: make(chan struct{}, 1)}}
	o.Logger = slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ready := make(chan struct{}, 1)
	onChange := func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	}
	o.Pool = startPool(t, o, onChange)
	o.Usage = usage.New(usage.Settings{Registry: o.Registry, Logger: o.Logger})
	tracker := probes.NewTracker(time.Now(), func(probes.Flip) {})
	o.Report = func() probes.Report {
		if o.probed != nil {
			o.probed()
		}
		return tracker.Observe(o.Pool.Snapshot())
	}
	r.API, r.settings, r.pool = New(o.Settings), o.Settings, o.Pool
	if o.route != nil {
		r.Mount(*o.route)
	}
	r.serve(t)
	if worker != nil || o.others != nil {
		await(t, ready, func() bool { return allReady(o.Report().Workers) })
	}
	return r
}

func allReady(workers []probes.Worker) bool {
	return !slices.ContainsFunc(workers, func(w probes.Worker) bool { return !w.Ready })
}

func startPool(t testing.TB, o options, onChange func()) *workers.Pool {
	t.Helper()
	var all []*workers.Worker
	names := slices.Sorted(maps.Keys(o.others))
	var pool *workers.Pool
	known := names
	if o.worker != nil {
		known = append([]string{"default"}, names...)
	}
	book := accounts.NewBook(o.policy, known, func() { pool.AccountsChanged(); onChange() })
	add := func(name string, worker *appservertest.Server) {
		all = append(all, workers.New(name, appservertest.Start(t, worker), workers.Settings{
			MaxInflight: o.max, HandshakeTimeout: bound, ResetAfter: time.Hour,
			OnChange: onChange, Book: book, Logger: slog.New(slog.DiscardHandler),
		}))
	}
	if o.worker != nil {
		add("default", o.worker)
	}
	for _, name := range names {
		add(name, o.others[name])
	}
	pool = workers.NewPool(all, o.queue, onChange)
	pool.BusChanged(false, units.ErrNoBus)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- pool.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
	return pool
}

func (r *rig) serve(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.addr, r.url = l.Addr().String(), "http://"+l.Addr().String()
	served, ran := make(chan error, 1), make(chan error, 1)
	running, stop := context.WithCancel(context.Background())
	go func() { served <- r.Serve(l) }()
	go func() { ran <- r.Run(running) }()
	transport := &http.Transport{}
	r.client = &http.Client{Transport: transport, Timeout: bound}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		require.NoError(t, r.Shutdown(ctx))
		require.NoError(t, <-served)
		stop()
		require.NoError(t, <-ran)
	})
}

// await waits until ok, which is asked again after each change.
func await(t testing.TB, changed <-chan struct{}, ok func() bool) {
	t.Helper()
	limit := time.After(bound)
	for !ok() {
		select {
		case <-changed:
		case <-limit:
			require.FailNow(t, "waited in vain")
		}
	}
}

// received waits for one value.
func received[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(bound):
		require.FailNow(t, "waited in vain")
		panic("unreachable")
	}
}

// records are the log.
type records struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *records) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *records) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// request waits for the line of the request with that id.
func (l *records) request(t *testing.T, id string) map[string]any {
	t.Helper()
	var found map[string]any
	await(t, l.changed, func() bool {
		for line := range strings.Lines(l.String()) {
			var record map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &record))
			if record["msg"] == "request" && record["request_id"] == id {
				found = record
				return true
			}
		}
		return false
	})
	return found
}

// hello is a request for the demo model; extra goes in front, as `"stream":true,`.
func hello(extra string) string {
	return `{` + extra + `"model":"demo","messages":[{"role":"user","content":"hello"}]}`
}

const streaming = `"stream":true,`

func (r *rig) do(t *testing.T, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// chatting posts to /v1/chat/completions.
func (r *rig) chatting(t *testing.T, body string, header ...string) *http.Response {
	t.Helper()
	return r.do(t, http.MethodPost, "/v1/chat/completions", body, header...)
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

// envelope is the error of a response or of an error frame.
type envelope struct {
	Error struct {
		Message   string  `json:"message"`
		Type      string  `json:"type"`
		Param     *string `json:"param"`
		Code      string  `json:"code"`
		Retryable bool    `json:"retryable"`
	} `json:"error"`
}

func failure(t *testing.T, text string) envelope {
	t.Helper()
	var e envelope
	require.NoError(t, json.Unmarshal([]byte(text), &e), text)
	require.NotEmpty(t, e.Error.Code, text)
	return e
}

// frames reads the rest of a stream of events, comments left out.
func frames(t *testing.T, resp *http.Response) []string {
	t.Helper()
	var data []string
	for frame := range strings.SplitSeq(text(t, resp), "\n\n") {
		if d, ok := strings.CutPrefix(frame, "data: "); ok {
			data = append(data, d)
		} else {
			require.True(t, frame == "" || frame[0] == ':', "%q", frame)
		}
	}
	return data
}

// frame reads one event or comment.
func frame(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	end, err := from.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "\n", end)
	return strings.TrimSuffix(line, "\n")
}

// withKeys makes keys and returns them. Limits may follow a name.
func withKeys(t *testing.T, names ...string) (*auth.Keys, []string) {
	t.Helper()
	var lines, secrets []string
	for _, name := range names {
		name, limits, _ := strings.Cut(name, " ")
		key, line, err := auth.Generate(name)
		require.NoError(t, err)
		lines, secrets = append(lines, line+" "+limits), append(secrets, key)
	}
	keys, err := auth.Parse(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return keys, secrets
}

// gated is a handler that sends chunk, waits for the gate, and sends the rest.
func gated(gate <-chan struct{}, chunk string, rest ...string) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		m := turn.Begin("")
		if chunk != "" {
			m.Delta(chunk)
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, c := range rest {
			m.Delta(c)
		}
		m.End()
		return nil
	}
}

// unread is resp with what is left to read in body.
func unread(resp *http.Response, body *bufio.Reader) *http.Response {
	rest := *resp
	rest.Body = io.NopCloser(body)
	return &rest
}
