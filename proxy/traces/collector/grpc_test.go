package collector

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// exporting is the answer of a collector of OTLP/gRPC.
type exporting func(context.Context, *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error)

type service struct {
	otlp.UnimplementedTraceServiceServer
	export exporting
}

func (s service) Export(
	ctx context.Context, r *otlp.ExportTraceServiceRequest,
) (*otlp.ExportTraceServiceResponse, error) {
	return s.export(ctx, r)
}

// fakeGRPC is a collector of OTLP/gRPC with this answer. It is the collector of the environment.
func fakeGRPC(t *testing.T, export exporting, options ...grpc.ServerOption) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(options...)
	otlp.RegisterTraceServiceServer(s, service{export: export})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
}

func TestForwardByGRPC(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20secret")
	fakeGRPC(t, func(ctx context.Context, r *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error) {
		header, _ := metadata.FromIncomingContext(ctx)
		assert.Equal(t, []string{"Bearer secret"}, header.Get("authorization"))
		assert.Equal(t, "turn", r.ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
		return &otlp.ExportTraceServiceResponse{
			PartialSuccess: &otlp.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "planted"},
		}, nil
	})
	c := forwarder(t)
	for range 2 {
		status, reason, rejected := post(t, c, message(t))
		assert.Equal(t, http.StatusOK, status, reason)
		assert.EqualValues(t, 3, rejected)
	}
}

// The daemon gets the code alone, and repeats the message where the OTLP specification has it.
func TestRefusedByGRPC(t *testing.T) {
	throttled, err := status.New(codes.ResourceExhausted, "planted").
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	require.NoError(t, err)
	for err, want := range map[error]int{
		status.Error(codes.Unauthenticated, "planted"):   http.StatusBadRequest,
		status.Error(codes.Internal, "planted"):          http.StatusBadRequest,
		status.Error(codes.Unavailable, "planted"):       http.StatusServiceUnavailable,
		status.Error(codes.ResourceExhausted, "planted"): http.StatusBadRequest,
		throttled.Err(): http.StatusServiceUnavailable,
	} {
		fakeGRPC(t, func(context.Context, *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error) {
			return nil, err
		})
		got, reason, _ := post(t, forwarder(t), message(t))
		assert.Equal(t, want, got)
		assert.Equal(t, "the collector answers "+status.Code(err).String(), reason)
	}
}
