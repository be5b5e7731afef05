package traces

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// firstWait is the wait after the first try, lastWait the longest one: together they let a collector
	// restart.
	firstWait = time.Second
	lastWait  = 8 * time.Second
	// warnInterval is the least time between two warnings in the log.
	warnInterval = time.Minute
)

// delivery sends batches, counts their spans, and logs failures. One goroutine uses it.
type delivery struct {
	send          func(ctx context.Context, message []byte) (rejected int64, err error)
	sent, dropped prometheus.Counter
	logger        *slog.Logger
	warned        time.Time
}

// deliver sends a batch, and repeats that for some seconds while the collector is away. After the end of ctx
// it tries once more; the end of sending aborts it.
func (d *delivery) deliver(ctx, sending context.Context, batch []sdk.ReadOnlySpan) {
	message, err := encode(sending, batch)
	if err != nil {
		d.count(len(batch), 0, err)
		return
	}
	for wait := firstWait; ; wait *= 2 {
		rejected, err := d.send(sending, message)
		if err == nil || !passing(err) || wait > lastWait {
			d.count(len(batch), rejected, err)
			return
		}
		d.warn(err)
		if !pause(ctx, wait) {
			wait = lastWait
		}
	}
}

// pause reports whether it lasted to its end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *delivery) count(spans int, rejected int64, err error) {
	all := int64(spans)
	if err != nil {
		d.warn(err)
		rejected = all
	}
	rejected = min(max(rejected, 0), all)
	d.dropped.Add(float64(rejected))
	d.sent.Add(float64(all - rejected))
}

func (d *delivery) warn(err error) {
	if time.Since(d.warned) >= warnInterval {
		d.warned = time.Now()
		d.logger.Warn("traces cannot be sent", "error", err)
	}
}

// upload takes the spans that an exporter of the SDK has turned into OTLP.
type upload func([]*otlp.ResourceSpans) error

// Start does nothing.
func (upload) Start(context.Context) error { return nil }

// Stop does nothing.
func (upload) Stop(context.Context) error { return nil }

// UploadTraces calls u.
func (u upload) UploadTraces(_ context.Context, spans []*otlp.ResourceSpans) error { return u(spans) }

// encode makes an ExportTraceServiceRequest. TracesData has the same one field with the same number
// (opentelemetry/proto/trace/v1/trace.proto), and its package does not link gRPC.
func encode(ctx context.Context, batch []sdk.ReadOnlySpan) (message []byte, err error) {
	err = otlptrace.NewUnstarted(upload(func(spans []*otlp.ResourceSpans) (err error) {
		message, err = proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
		return err
	})).ExportSpans(ctx, batch)
	return message, err
}
