package integration

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"

	"codex-proxy/test/manual"
)

const (
	grpcCollectorAddr = "127.0.0.1:4317"
	tracesDropIn      = "/etc/systemd/system/" + tracesUnit + ".d/otel.conf"
	proxyDropIn       = "/etc/systemd/system/" + proxyUnit + ".d/otel.conf"
)

// grpcCollector is an OTLP/gRPC receiver in the machine's network.
type grpcCollector struct {
	coltrace.UnimplementedTraceServiceServer
	messages chan *otlp.ResourceSpans
	header   chan metadata.MD
}

func (b *bed) grpcCollector() *grpcCollector {
	b.t.Helper()
	l, err := b.Listen("tcp", grpcCollectorAddr)
	require.NoError(b.t, err)
	c := &grpcCollector{messages: make(chan *otlp.ResourceSpans, 1000), header: make(chan metadata.MD, 1000)}
	s := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	b.t.Cleanup(func() {
		s.Stop()
		assert.NoError(b.t, <-served)
	})
	return c
}

func (c *grpcCollector) Export(
	ctx context.Context, r *coltrace.ExportTraceServiceRequest,
) (*coltrace.ExportTraceServiceResponse, error) {
	header, _ := metadata.FromIncomingContext(ctx)
	c.header <- header
	for _, s := range r.ResourceSpans {
		c.messages <- s
	}
	return &coltrace.ExportTraceServiceResponse{}, nil
}

// The documented drop-ins have their effect, within the sandbox.
func TestTracesOfTheEnvironment(t *testing.T) { bothSuites(t, testTracesOfTheEnvironment) }

func testTracesOfTheEnvironment(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, toCollector+"sample_ratio = 0.0\n")
	c := b.grpcCollector()
	doc := manual.Open(t, "docs/traces.md")
	for _, dropIn := range []string{tracesDropIn, proxyDropIn} {
		b.MustRun(t, "mkdir", "-p", filepath.Dir(dropIn))
		require.NoError(t, b.WriteFile(dropIn, []byte(doc.File(dropIn)), 0o644))
	}
	require.NoError(t, b.WriteFile(filepath.Dir(tracesDropIn)+"/more.conf", []byte(`[Service]
Environment=OTEL_EXPORTER_OTLP_TIMEOUT=5000 OTEL_EXPORTER_OTLP_HEADERS=x-tenant=blue%%20team
`), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.start()

	b.untraced()
	message := <-c.messages
	assert.Equal(t, []string{"blue team"}, (<-c.header).Get("x-tenant"))
	resource := map[string]string{}
	for _, a := range message.Resource.Attributes {
		resource[a.Key] = a.Value.GetStringValue()
	}
	assert.Equal(t, "codex-in-the-lab", resource["service.name"])
	assert.Equal(t, "lab", resource["deployment.environment.name"])
	assert.NotEmpty(t, resource["service.version"])
	assert.Equal(t, "127.0.0.1/32", b.show(tracesUnit, "IPAddressAllow")["IPAddressAllow"])
	assert.NotRegexp(t, "(?i)failed|error|denied", b.journal(tracesUnit))

	b.MustRun(t, "rm", tracesDropIn, proxyDropIn)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "stop", tracesUnit)
	collector := b.collector()
	b.traced("http", "none", "[[text a]]", false)
	collector.trace("http")
	assert.Equal(t, "127.0.0.9/32", b.show(tracesUnit, "IPAddressAllow")["IPAddressAllow"])
}

// A mistake in a variable costs the spans alone, and the journal has it.
func TestTracesWithAMistake(t *testing.T) { bothSuites(t, testTracesWithAMistake) }

func testTracesWithAMistake(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, toCollector)
	b.MustRun(t, "mkdir", "-p", filepath.Dir(tracesDropIn))
	for variable, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=udp":            "must be one of grpc, http/protobuf, http/json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317": "OTEL_EXPORTER_OTLP_ENDPOINT: must be the URL",
	} {
		require.NoError(t, b.WriteFile(tracesDropIn, []byte("[Service]\nEnvironment="+variable+"\n"), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.MustRun(t, "systemctl", "stop", tracesUnit)
		b.MustRun(t, "systemctl", "restart", "codex.target")
		b.until("ready", ready)
		b.traced("any", "none", "[[text a]]", false)
		b.awaitJournal(tracesUnit, want, bound)
		b.awaitJournal(proxyUnit, want, bound)
	}
	b.MustRun(t, "rm", tracesDropIn)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "stop", tracesUnit)
	c := b.collector()
	b.traced("mended", "none", "[[text a]]", false)
	c.trace("mended")
}

// untraced posts a chat request without a traceparent.
func (b *bed) untraced() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	res, err := b.http.Do(chatRequest(ctx, false, "[[text a]]"))
	require.NoError(b.t, err)
	defer res.Body.Close()
	require.Equal(b.t, http.StatusOK, res.StatusCode)
}
