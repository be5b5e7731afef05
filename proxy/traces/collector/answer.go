package collector

import (
	"bytes"
	"context"
	"io"
	"net/http"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// answer is the collector's answer to one message. The exporters of the SDK return it only as the text of
// an error, together with text from the collector, which must not get into a log.
type answer struct {
	status   int    // of HTTP, or its counterpart; 0: there was no answer
	reason   string // set for gRPC
	rejected int64  // spans
}

type answerKey struct{}

// withAnswer returns a context in which requests record their answer.
func withAnswer(ctx context.Context) (context.Context, *answer) {
	a := &answer{}
	return context.WithValue(ctx, answerKey{}, a), a
}

// message returns an ExportTraceServiceResponse.
func (a *answer) message() []byte {
	response := &otlp.ExportTraceServiceResponse{}
	if a.rejected > 0 {
		response.PartialSuccess = &otlp.ExportTracePartialSuccess{RejectedSpans: a.rejected}
	}
	message, _ := proto.Marshal(response) // no text, no error
	return message
}

// recorder is a transport that records the answers of a collector.
type recorder struct{ http.RoundTripper }

// RoundTrip reads the body of a success, of at most maxAnswer bytes.
func (t recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	a, _ := r.Context().Value(answerKey{}).(*answer)
	if err != nil || a == nil {
		return res, err
	}
	if res.StatusCode/100 == 2 {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		_ = res.Body.Close()
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		var response otlp.ExportTraceServiceResponse
		if proto.Unmarshal(body, &response) == nil { // of http/json the SDK reads no number that it returns
			a.rejected = response.GetPartialSuccess().GetRejectedSpans()
		}
	}
	a.status = res.StatusCode
	return res, nil
}

// record is an interceptor that records the answers of a collector.
func record(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	var server peer.Peer
	err := invoke(ctx, method, request, reply, conn, append(options, grpc.Peer(&server))...)
	if a, _ := ctx.Value(answerKey{}).(*answer); a != nil {
		a.status, a.reason = statusOf(err, server.Addr != nil)
		if response, ok := reply.(*otlp.ExportTraceServiceResponse); ok && err == nil {
			a.rejected = response.GetPartialSuccess().GetRejectedSpans()
		}
	}
	return err
}

// statusOf returns the counterpart of a gRPC error in HTTP. The text of an error is the collector's own if
// the call had a connection.
func statusOf(err error, connected bool) (int, string) {
	s := status.Convert(err)
	reason := "the collector answers " + s.Code().String()
	switch {
	case err == nil:
		return http.StatusOK, ""
	case !connected:
		return http.StatusBadGateway, s.Message()
	case retryable(s):
		return http.StatusServiceUnavailable, reason
	}
	return http.StatusBadRequest, reason
}

// retryable has the table of the OTLP specification 1.10, "OTLP/gRPC Response", "Failures".
func retryable(s *status.Status) bool {
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true
	case codes.ResourceExhausted:
		for _, detail := range s.Details() {
			if _, ok := detail.(*errdetails.RetryInfo); ok {
				return true
			}
		}
	}
	return false
}
