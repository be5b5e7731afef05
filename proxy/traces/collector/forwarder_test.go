package collector

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"codex-proxy/internal/ondemand"
	"codex-proxy/proxy/traces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// forwarder runs a Forwarder of this environment, and returns a client that posts to its socket.
func forwarder(t *testing.T) *http.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	f := NewForwarder(time.Hour, slog.New(slog.DiscardHandler))
	go func() { ran <- f.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// message is a batch of one span.
func message(t *testing.T) []byte {
	t.Helper()
	span := &spans.Span{Name: "turn", TraceId: make([]byte, 16), SpanId: make([]byte, 8)}
	batch := []*spans.ScopeSpans{{Spans: []*spans.Span{span}}}
	b, err := proto.Marshal(&otlp.ExportTraceServiceRequest{ResourceSpans: []*spans.ResourceSpans{{ScopeSpans: batch}}})
	require.NoError(t, err)
	return b
}

// post returns what the daemon gets for a message.
func post(t *testing.T, c *http.Client, message []byte) (status int, reason string, rejected int64) {
	t.Helper()
	res, err := c.Post("http://traces"+traces.Path, "application/x-protobuf", bytes.NewReader(message))
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.NotContains(t, string(body), "planted")
	var response otlp.ExportTraceServiceResponse
	require.NoError(t, proto.Unmarshal(body, &response))
	return res.StatusCode, res.Header.Get(ondemand.ReasonHeader), response.GetPartialSuccess().GetRejectedSpans()
}

// fake is a collector of OTLP/HTTP with this answer. It is the collector of the environment.
func fake(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	return s.URL
}

// rejection is a partial success.
func rejection(t *testing.T) []byte {
	t.Helper()
	b, err := proto.Marshal(&otlp.ExportTraceServiceResponse{
		PartialSuccess: &otlp.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "planted"},
	})
	require.NoError(t, err)
	return b
}

func TestForward(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret,x-tenant=a")
	fake(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, message(t), body)
		assert.Equal(t, "POST /v1/traces", r.Method+" "+r.URL.Path)
		assert.Equal(t, "application/x-protobuf", r.Header.Get("Content-Type"))
		assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		assert.Equal(t, "a", r.Header.Get("X-Tenant"))
		_, _ = w.Write(rejection(t))
	})
	status, _, rejected := post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusOK, status)
	assert.EqualValues(t, 3, rejected)
}

// The daemon gets the collector's status and nothing else of its answer.
func TestForwardRefused(t *testing.T) {
	for _, want := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusInternalServerError,
		http.StatusTooManyRequests, http.StatusServiceUnavailable,
	} {
		fake(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(ondemand.ReasonHeader, "planted")
			w.WriteHeader(want)
			_, _ = io.WriteString(w, "planted")
		})
		status, reason, _ := post(t, forwarder(t), message(t))
		assert.Equal(t, want, status)
		assert.Empty(t, reason)
	}
}

// The headers are for the collector alone.
func TestForwardFollowsNobody(t *testing.T) {
	other := fake(t, func(http.ResponseWriter, *http.Request) { t.Error("it was followed") })
	fake(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	status, _, _ := post(t, forwarder(t), message(t))
	assert.Equal(t, http.StatusTemporaryRedirect, status)
}

func TestForwardNowhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
		status, reason, _ := post(t, forwarder(t), message(t))
		assert.Equal(t, http.StatusBadGateway, status, "worth another try")
		assert.Contains(t, reason, "connection refused")

		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
		status, reason, _ = post(t, forwarder(t), message(t))
		assert.Equal(t, http.StatusGone, status)
		assert.Equal(t, errNoCollector.Error(), reason)
	}
}

func TestForwardTooMuch(t *testing.T) {
	fake(t, func(http.ResponseWriter, *http.Request) { t.Error("it was forwarded") })
	c := forwarder(t)
	status, _, _ := post(t, c, bytes.Repeat([]byte("x"), traces.MaxMessage+1))
	assert.Equal(t, http.StatusBadRequest, status)
	status, reason, _ := post(t, c, []byte("planted"))
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, reason, "cannot read the spans")
}
