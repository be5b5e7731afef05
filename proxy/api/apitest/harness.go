package apitest

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

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/proxy"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
)

// The values of the label reason of codex_turn_retries_total.
const (
	LostWorker      = "worker_exited"
	LostStopping    = "worker_stopping"
	LostOverloaded  = "overloaded"
	LostStart       = "start_timeout"
	LostInterrupted = "interrupted"
)

// Bound is the longest that any wait of these tests takes.
const Bound = time.Minute

// Rig is a server on a real listener, in front of one fake worker.
type Rig struct {
	*api.API
	settings api.Settings
	Pool     *workers.Pool
	URL      string
	Addr     string
	Client   *http.Client
	Log      *records
}

// Options are what tests change.
type Options struct {
	api.Settings
	worker *appservertest.Server
	Others map[string]*appservertest.Server // further workers, by name
	Policy accounts.Policy
	Max    int
	Queue  dispatch.Queue
	Route  *proxy.Route
	Probed func() // is called before a report
}

// NewRig starts the server and waits for the worker, if there is one.
func NewRig(t testing.TB, worker *appservertest.Server, changes ...func(*Options)) *Rig {
	t.Helper()
	queue := dispatch.Queue{Limit: 64, Timeout: Bound, ReadyTimeout: Bound}
	o := Options{worker: worker, Max: 16, Queue: queue, Settings: api.Settings{
		BodyLimit: 1 << 20, RequestMemory: 256 << 20, QueueTimeout: Bound, IdleTimeout: Bound,
		Keepalive: Bound, Registry: prometheus.NewRegistry(),
	}}
	for _, change := range changes {
		change(&o)
	}
	r := &Rig{Log: &records{Changed: make(chan struct{}, 1)}}
	o.Logger = slog.New(slog.NewJSONHandler(r.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
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
		if o.Probed != nil {
			o.Probed()
		}
		return tracker.Observe(o.Pool.Snapshot())
	}
	r.API, r.settings, r.Pool = api.New(o.Settings), o.Settings, o.Pool
	if o.Route != nil {
		r.Mount(*o.Route)
	}
	r.serve(t)
	if worker != nil || o.Others != nil {
		Await(t, ready, func() bool { return allReady(o.Report().Workers) })
	}
	return r
}

func allReady(workers []probes.Worker) bool {
	return !slices.ContainsFunc(workers, func(w probes.Worker) bool { return !w.Ready })
}

func startPool(t testing.TB, o Options, onChange func()) *workers.Pool {
	t.Helper()
	var all []*workers.Worker
	names := slices.Sorted(maps.Keys(o.Others))
	var pool *workers.Pool
	known := names
	if o.worker != nil {
		known = append([]string{"default"}, names...)
	}
	store := accounts.NewStore(o.Policy, known, func() { pool.AccountsChanged(); onChange() })
	add := func(name string, worker *appservertest.Server) {
		all = append(all, workers.New(name, appservertest.Start(t, worker), workers.Settings{
			MaxInflight: o.Max, HandshakeTimeout: Bound, ResetAfter: time.Hour,
			OnChange: onChange, AccountStore: store, Logger: slog.New(slog.DiscardHandler),
		}))
	}
	if o.worker != nil {
		add("default", o.worker)
	}
	for _, name := range names {
		add(name, o.Others[name])
	}
	pool = workers.NewPool(all, o.Queue, onChange)
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

func (r *Rig) serve(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.Addr, r.URL = l.Addr().String(), "http://"+l.Addr().String()
	served, ran := make(chan error, 1), make(chan error, 1)
	running, stop := context.WithCancel(context.Background())
	go func() { served <- r.Serve(l) }()
	go func() { ran <- r.Run(running) }()
	transport := &http.Transport{}
	r.Client = &http.Client{Transport: transport, Timeout: Bound}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), Bound)
		defer cancel()
		require.NoError(t, r.Shutdown(ctx))
		require.NoError(t, <-served)
		stop()
		require.NoError(t, <-ran)
	})
}

// Await waits until ok, which is asked again after each change.
func Await(t testing.TB, changed <-chan struct{}, ok func() bool) {
	t.Helper()
	limit := time.After(Bound)
	for !ok() {
		select {
		case <-changed:
		case <-limit:
			require.FailNow(t, "waited in vain")
		}
	}
}

// Received waits for one value.
func Received[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Bound):
		require.FailNow(t, "waited in vain")
		panic("unreachable")
	}
}

// records are the log.
type records struct {
	mu      sync.Mutex
	text    bytes.Buffer
	Changed chan struct{}
}

// Write is a line of the log.
func (l *records) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.Changed <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// String is the log so far.
func (l *records) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Request waits for the line of the request with that id.
func (l *records) Request(t testing.TB, id string) map[string]any {
	t.Helper()
	var found map[string]any
	Await(t, l.Changed, func() bool {
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

// Hello is a request for the demo model; extra goes in front, as `"stream":true,`.
func Hello(extra string) string {
	return `{` + extra + `"model":"demo","messages":[{"role":"user","content":"hello"}]}`
}

// Streaming is what asks for a stream in a request.
const Streaming = `"stream":true,`

// Do sends a request; header has names and values by turns.
func (r *Rig) Do(t testing.TB, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.Client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// Chatting posts to /v1/chat/completions.
func (r *Rig) Chatting(t testing.TB, body string, header ...string) *http.Response {
	t.Helper()
	return r.Do(t, http.MethodPost, "/v1/chat/completions", body, header...)
}

// Text is the rest of a body.
func Text(t testing.TB, resp *http.Response) string {
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

// Failure is the error in a text, which must have one.
func Failure(t testing.TB, text string) envelope {
	t.Helper()
	var e envelope
	require.NoError(t, json.Unmarshal([]byte(text), &e), text)
	require.NotEmpty(t, e.Error.Code, text)
	return e
}

// Frames reads the rest of a stream of events, comments left out.
func Frames(t testing.TB, resp *http.Response) []string {
	t.Helper()
	var data []string
	for frame := range strings.SplitSeq(Text(t, resp), "\n\n") {
		if d, ok := strings.CutPrefix(frame, "data: "); ok {
			data = append(data, d)
		} else {
			require.True(t, frame == "" || frame[0] == ':', "%q", frame)
		}
	}
	return data
}

// Frame reads one event or comment.
func Frame(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	end, err := from.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "\n", end)
	return strings.TrimSuffix(line, "\n")
}

// WithKeys makes keys and returns them. Limits may follow a name.
func WithKeys(t testing.TB, names ...string) (*auth.Keys, []string) {
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

// Gated is a handler that sends chunk, waits for the gate, and sends the rest.
func Gated(gate <-chan struct{}, chunk string, rest ...string) appservertest.Handler {
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

// Unread is resp with what is left to read in body.
func Unread(resp *http.Response, body *bufio.Reader) *http.Response {
	rest := *resp
	rest.Body = io.NopCloser(body)
	return &rest
}
