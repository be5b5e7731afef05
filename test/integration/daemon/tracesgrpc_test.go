package daemon

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // as the documented drop-in has the sender compress
	"google.golang.org/grpc/metadata"

	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
)

const (
	grpcCollectorAddr = "127.0.0.1:4317"
	tracesDropIn      = "/etc/systemd/system/" + tracesUnit + ".d/otel.conf"
	proxyDropIn       = "/etc/systemd/system/" + bed.ProxyUnit + ".d/otel.conf"
)

// grpcCollector is an OTLP/gRPC receiver in the machine's network.
type grpcCollector struct {
	coltrace.UnimplementedTraceServiceServer
	messages chan *otlp.ResourceSpans
	header   chan metadata.MD
}

func startGRPCCollector(b *bed.Bed) *grpcCollector {
	b.T.Helper()
	l, err := b.Listen("tcp", grpcCollectorAddr)
	require.NoError(b.T, err)
	c := &grpcCollector{messages: make(chan *otlp.ResourceSpans, 1000), header: make(chan metadata.MD, 1000)}
	s := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	b.T.Cleanup(func() {
		s.Stop()
		assert.NoError(b.T, <-served)
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

// received waits for what the collector has got next, and shows what the sender says if there is nothing.
func received[T any](b *bed.Bed, from <-chan T) (v T) {
	b.T.Helper()
	select {
	case v = <-from:
	case <-time.After(bed.Bound):
		require.FailNow(b.T, "the collector got nothing", "%s", b.UnitJournal(tracesUnit))
	}
	return v
}

// The documented drop-ins have their effect, within the sandbox.
func TestTracesOfTheEnvironment(t *testing.T) { bed.EitherSuite(t, testTracesOfTheEnvironment) }

func testTracesOfTheEnvironment(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, toCollector+"sample_ratio = 0.0\n")
	c := startGRPCCollector(b)
	doc := manual.Open(t, "docs/traces.md")
	for _, dropIn := range []string{tracesDropIn, proxyDropIn} {
		b.MustRun(t, "mkdir", "-p", filepath.Dir(dropIn))
		require.NoError(t, b.WriteFile(dropIn, []byte(doc.File(dropIn)), 0o644))
	}
	require.NoError(t, b.WriteFile(filepath.Dir(tracesDropIn)+"/more.conf", []byte(`[Service]
Environment=OTEL_EXPORTER_OTLP_TIMEOUT=5000 OTEL_EXPORTER_OTLP_HEADERS=x-tenant=blue%%20team
`), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()

	untraced(b)
	message := received(b, c.messages)
	assert.Equal(t, []string{"blue team"}, received(b, c.header).Get("x-tenant"))
	resource := map[string]string{}
	for _, a := range message.Resource.Attributes {
		resource[a.Key] = a.Value.GetStringValue()
	}
	assert.Equal(t, "codex-in-the-lab", resource["service.name"])
	assert.Equal(t, "lab", resource["deployment.environment.name"])
	assert.NotEmpty(t, resource["service.version"])
	assert.Equal(t, "127.0.0.1/32", b.Properties(tracesUnit, "IPAddressAllow")["IPAddressAllow"])
	assert.NotRegexp(t, "(?i)failed|error|denied", b.UnitJournal(tracesUnit))

	b.MustRun(t, "rm", tracesDropIn, proxyDropIn)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "stop", tracesUnit)
	collector := startCollector(b)
	traced(b, "http", "none", "[[text a]]", false)
	collector.trace("http")
	assert.Equal(t, "127.0.0.9/32", b.Properties(tracesUnit, "IPAddressAllow")["IPAddressAllow"])
}

// A mistake in a variable costs the spans alone, and the journal has it.
func TestTracesWithAMistake(t *testing.T) { bed.EitherSuite(t, testTracesWithAMistake) }

func testTracesWithAMistake(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, toCollector)
	b.MustRun(t, "mkdir", "-p", filepath.Dir(tracesDropIn))
	for variable, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=udp":            "must be one of grpc, http/protobuf, http/json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317": "OTEL_EXPORTER_OTLP_ENDPOINT: must be the URL",
	} {
		require.NoError(t, b.WriteFile(tracesDropIn, []byte("[Service]\nEnvironment="+variable+"\n"), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.MustRun(t, "systemctl", "stop", tracesUnit)
		b.MustRun(t, "systemctl", "restart", "codex.target")
		b.Until("ready", bed.Ready)
		traced(b, "any", "none", "[[text a]]", false)
		b.AwaitJournal(tracesUnit, want, bed.Bound)
		b.AwaitJournal(bed.ProxyUnit, want, bed.Bound)
	}
	b.MustRun(t, "rm", tracesDropIn)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "stop", tracesUnit)
	c := startCollector(b)
	traced(b, "mended", "none", "[[text a]]", false)
	c.trace("mended")
}

// untraced posts a chat request without a traceparent.
func untraced(b *bed.Bed) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	res, err := b.HTTP.Do(bed.ChatRequest(ctx, false, "[[text a]]"))
	require.NoError(b.T, err)
	defer res.Body.Close()
	require.Equal(b.T, http.StatusOK, res.StatusCode)
}
