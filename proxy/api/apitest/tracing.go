package apitest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"codex-proxy/proxy/traces"
)

// ClientSpan is the traceparent that clients of these tests send.
const ClientSpan = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Spans is a tracer whose spans come out of the channel, as they were sent.
func Spans(t testing.TB) (*traces.Tracer, <-chan *otlp.Span) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	out := make(chan *otlp.Span, 100)
	s := http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		var request collector.ExportTraceServiceRequest
		assert.NoError(t, proto.Unmarshal(body, &request))
		assert.NotContains(t, string(body), "planted", "content in a span")
		for _, s := range request.ResourceSpans[0].ScopeSpans[0].Spans {
			out <- s
		}
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tracer := traces.New(traces.Settings{Socket: socket, Ratio: 0, Version: "test",
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- tracer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return tracer, out
}

// Trace collects spans up to the request's own, by name; several of one name are
// in the order of their ends.
func Trace(t testing.TB, from <-chan *otlp.Span) (request *otlp.Span, inner map[string][]*otlp.Span) {
	t.Helper()
	inner = map[string][]*otlp.Span{}
	for {
		s := Received(t, from)
		if s.Kind == otlp.Span_SPAN_KIND_SERVER {
			return s, inner
		}
		inner[s.Name] = append(inner[s.Name], s)
	}
}

// AttributesOf are the attributes of a span.
func AttributesOf(s *otlp.Span) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
		if all[a.Key] == "" {
			all[a.Key] = a.Value.GetIntValue()
		}
	}
	return all
}
