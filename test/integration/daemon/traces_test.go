package daemon

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

const (
	tracesUnit    = "codex-proxy-traces.service"
	tracesSocket  = "codex-proxy-traces.socket"
	headersFile   = "/etc/codex-proxy/traces-headers"
	collectorAddr = "127.0.0.9:4318"
	toCollector   = "[traces]\nendpoint = \"http://" + collectorAddr + "\"\n"
	traceID       = "0af7651916cd43dd8448eb211c80319c"
	clientSpan    = "b7ad6b7169203331"
)

// collector is an OTLP/HTTP receiver in the machine's network.
type collector struct {
	t      *testing.T
	spans  chan *otlp.Span
	header chan http.Header // of the last message
	close  func()
}

func startCollector(b *bed.Bed) *collector {
	b.T.Helper()
	l, err := b.Listen("tcp", collectorAddr)
	require.NoError(b.T, err)
	c := &collector{t: b.T, spans: make(chan *otlp.Span, 1000), header: make(chan http.Header, 1000)}
	s := http.Server{Handler: c}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	closed := false
	c.close = func() {
		if !closed {
			closed = true
			s.Close()
			assert.ErrorIs(b.T, <-done, http.ErrServerClosed)
		}
	}
	b.T.Cleanup(c.close)
	return c
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	assert.NoError(c.t, err)
	assert.Equal(c.t, "POST /v1/traces", r.Method+" "+r.URL.Path)
	var request coltrace.ExportTraceServiceRequest
	assert.NoError(c.t, proto.Unmarshal(body, &request))
	for name, text := range bed.Planted {
		assert.NotContains(c.t, string(body), text, name)
	}
	assert.NotContains(c.t, string(body), "sk-")
	c.header <- r.Header
	for _, s := range request.ResourceSpans[0].ScopeSpans[0].Spans {
		c.spans <- s
	}
}

// trace collects spans up to that of the request with that id.
func (c *collector) trace(id string) map[string]*otlp.Span {
	c.t.Helper()
	all, limit := map[string]*otlp.Span{}, time.After(bed.Bound)
	for {
		select {
		case s := <-c.spans:
			all[s.Name] = s
			if attributes(s)["codex.request_id"] == id {
				return all
			}
		case <-limit:
			require.FailNow(c.t, "no span of "+id, "%v", all)
		}
	}
}

func attributes(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// traced posts a chat request with the id in the client's trace.
func traced(b *bed.Bed, id, key, prompt string, stream bool) {
	b.T.Helper()
	body, err := io.ReadAll(beginTraced(b, id, key, prompt, stream))
	require.NoError(b.T, err, "%s", body)
}

// beginTraced is traced up to the header of the answer. It returns the body.
func beginTraced(b *bed.Bed, id, key, prompt string, stream bool) io.Reader {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	b.T.Cleanup(cancel)
	req := bed.ChatRequest(ctx, stream, prompt)
	for name, value := range map[string]string{
		"Traceparent": "00-" + traceID + "-" + clientSpan + "-01", "Tracestate": "vendor=1", "X-Request-Id": id,
		"Authorization": "Bearer " + key,
	} {
		req.Header.Set(name, value)
	}
	res, err := b.HTTP.Do(req)
	require.NoError(b.T, err)
	b.T.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(b.T, http.StatusOK, res.StatusCode)
	return res.Body
}

// The spans of a stream arrive, linked and in order, at a collector that the daemon's
// network does not reach; also across a reload and a stop.
func TestTraces(t *testing.T) {
	bed.EitherSuite(t, tracesArrive)
}

func tracesArrive(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, toCollector)
	c := startCollector(b)
	b.MustRun(t, "chmod", "0600", headersFile)
	require.NoError(t, b.WriteFile(headersFile, []byte("Authorization: Bearer planted-for-the-collector\n"), 0o600))
	b.Start()
	key := bed.AddKey(b, "alice")
	assert.Equal(t, "inactive", b.Properties(tracesUnit, "ActiveState")["ActiveState"], "there was no span yet")

	began := time.Now()
	body := bufio.NewReader(beginTraced(b, "first", key,
		bed.Planted["prompt"]+"[[text "+bed.Planted["answer"]+"]][[gate traced]][[text "+bed.Planted["held"]+"]]", true))
	for line := ""; !strings.Contains(line, bed.Planted["answer"]); {
		var err error
		line, err = body.ReadString('\n')
		require.NoError(t, err)
	}
	first := time.Now()
	b.Models.Release("traced")
	_, err := io.Copy(io.Discard, body)
	require.NoError(t, err)
	ended := time.Now()
	spans := c.trace("first")
	assert.Equal(t, "Bearer planted-for-the-collector", (<-c.header).Get("Authorization"))
	request, queue, turn := spans["POST /v1/chat/completions"], spans["queue"], spans["turn"]
	require.NotNil(t, queue)
	require.NotNil(t, turn)
	require.Len(t, turn.Events, 1)
	assert.Equal(t, clientSpan, hex.EncodeToString(request.ParentSpanId))
	assert.Equal(t, request.SpanId, queue.ParentSpanId)
	assert.Equal(t, request.SpanId, turn.ParentSpanId)
	for _, s := range []*otlp.Span{request, queue, turn} {
		assert.Equal(t, traceID, hex.EncodeToString(s.TraceId))
	}
	token := turn.Events[0].TimeUnixNano
	assert.IsNonDecreasing(t, []uint64{
		uint64(began.UnixNano()), request.StartTimeUnixNano, queue.StartTimeUnixNano, queue.EndTimeUnixNano,
		turn.StartTimeUnixNano,
		token, uint64(first.UnixNano()), turn.EndTimeUnixNano, request.EndTimeUnixNano, uint64(ended.UnixNano()),
	}, "the event is the first token, not the last")
	assert.Equal(t, "alice", attributes(request)["codex.api_key_name"])
	assert.Equal(t, "default", attributes(turn)["codex.worker"])
	entry := b.Entries(t, "CODEX_TRACE_ID="+traceID)
	require.Len(t, entry, 1)
	assert.Equal(t, entry[0]["CODEX_THREAD_ID"], attributes(turn)["codex.thread_id"])

	// Still only the other unit has a network, and only to the collector.
	assert.Equal(t, "yes", b.Properties(bed.ProxyUnit, "PrivateNetwork")["PrivateNetwork"])
	assert.Equal(t, "127.0.0.9/32", b.Properties(tracesUnit, "IPAddressAllow")["IPAddressAllow"])
	code, _, _ := b.Run(t.Context(), "sh", "-c", `echo $$ >/sys/fs/cgroup/system.slice/`+tracesUnit+`/cgroup.procs &&
		curl --silent --output /dev/null --max-time 2 --write-out '%{http_code}' `+bed.Base+`/livez`)
	assert.Equal(t, "000", code, "the kernel lets it through")

	traced(b, "reload", key, "[[text a]]", false)
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections() // they belong to the old process
	c.trace("reload")
	// The reload has ended the sender. systemd starts none before a stop of the proxy has ended, as the units are ordered.
	traced(b, "between", key, "[[text a]]", false)
	c.trace("between")
	traced(b, "restart", key, "[[text a]]", false)
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections()
	c.trace("restart")
	traced(b, "stop", key, "[[text a]]", false)
	b.MustRun(t, "systemctl", "stop", "codex.target")
	c.trace("stop")
	b.AwaitInactive(tracesUnit)
	b.AwaitInactive(tracesSocket)
	assert.NotContains(t, b.Export(), "planted-for-the-collector")
	assert.NotRegexp(t, "(?i)failed|error", b.UnitJournal(tracesUnit))
}

// A collector that is away, or forwarding that fails, costs requests nothing, and is
// logged.
func TestTracesGoNowhere(t *testing.T) { bed.EitherSuite(t, testTracesGoNowhere) }

func testTracesGoNowhere(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, toCollector)
	c := startCollector(b)
	require.NoError(t, b.WriteFile(headersFile, []byte("planted-no-header\n"), 0o600))
	began := time.Now()
	b.Start()
	traced(b, "refused", "none", "[[text a]]", false)
	b.AwaitJournal(tracesUnit, "traces-headers:1: must be a header", bed.Bound)
	bed.AssertRefuses(b, tracesUnit, "must be a header", func() { traced(b, "refused", "none", "[[text a]]", false) })
	b.MustRun(t, "rm", headersFile)
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.AwaitJournal(bed.ProxyUnit, "traces-headers:1: must be a header", bed.Bound) // from the old process
	b.HTTP.CloseIdleConnections()
	traced(b, "mended", "none", "[[text a]]", false)
	c.trace("mended")
	b.MustRun(t, "systemd-tmpfiles", "--create", "codex-proxy.conf")
	bed.DoctorFindsNothing(b)
	c.close()
	traced(b, "away", "none", "[[text a]]", true)
	b.AwaitJournal(bed.ProxyUnit, "connection refused", bed.Bound)
	logged := b.Entries(t, "CODEX_EVENT=traces-not-sent")
	assert.Contains(t, logged[1]["CODEX_ERROR"], "connection refused")
	for i := range 20 {
		traced(b, fmt.Sprint("away", i), "none", "[[text a]]", false)
	}
	b.MustRun(t, "systemctl", "stop", tracesSocket, tracesUnit)
	bed.Follow(b, bed.DoctorFinds(b, "units", tracesSocket+": is stopped"))
	bed.DoctorFindsNothing(b)
	awaitMetric(b, `codex_trace_spans_total{outcome="dropped"} `)
	logged = b.Entries(t, "CODEX_EVENT=traces-not-sent")
	minutes := int(time.Since(began) / time.Minute)
	assert.LessOrEqual(t, len(logged), 2+minutes, "each of the two processes once, and then once a minute")

	startCollector(b)
	require.NoError(t, b.WriteFile(bed.ConfigFile, nil, 0o644))
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections()
	_, metrics := b.Get("/metrics")
	assert.NotContains(t, string(metrics), "codex_trace_spans_total", "traces are off")
	bed.AwaitSole(b)
	assert.Equal(t, "active", b.Properties(tracesSocket, "ActiveState")["ActiveState"])
}

// awaitMetric waits until the sample with that beginning is not 0.
func awaitMetric(b *bed.Bed, sample string) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		_, metrics := b.Get("/metrics")
		for line := range strings.Lines(string(metrics)) {
			if value, ok := strings.CutPrefix(line, sample); ok && bed.Trim(value) != "0" {
				return
			}
		}
		require.True(b.T, time.Now().Before(deadline), "never: %s", sample)
	}
}

// By default there are no traces, and no unit is started for them.
func TestNoTraces(t *testing.T) { bed.EitherSuite(t, testNoTraces) }

func testNoTraces(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	traced(b, "untraced", "none", "[[text a]]", true)
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit) // the restart would flush spans
	assert.Empty(t, b.Entries(t, "CODEX_TRACE_ID="+traceID))
	assert.Empty(t, b.Entries(t, "_SYSTEMD_UNIT="+tracesUnit))
	assert.Empty(t, b.Entries(t, "UNIT="+tracesUnit), "it was started")
	assert.Equal(t, "active", b.Properties(tracesSocket, "ActiveState")["ActiveState"])
	assert.Equal(t, "600 root:root", bed.Trim(b.MustRun(t, "stat", "--format=%a %U:%G", headersFile)))
}
