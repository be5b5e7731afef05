package traces

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxAttributes and maxEvents bound one span. With maxText and maxState they keep the largest batch
	// below MaxMessage.
	maxAttributes = 20
	maxEvents     = 4
	// flushTime bounds the sending after the end of Run's context.
	flushTime = 2 * time.Second
	scopeName = "codex-proxy"
)

// Settings configures a Tracer.
type Settings struct {
	// Socket is the path of the sender's socket.
	Socket string
	// Ratio is the part of the requests to trace, 0 to 1, of those without a valid traceparent.
	// OTEL_TRACES_SAMPLER replaces it.
	Ratio float64
	// Version is the program's version, Host the name of the machine. OTEL_SERVICE_NAME and
	// OTEL_RESOURCE_ATTRIBUTES take precedence over both.
	Version, Host string
	Registry      prometheus.Registerer
	Logger        *slog.Logger
}

// Tracer makes spans and sends them. Create it with New. Its methods may be called from any goroutine;
// the methods of a nil *Tracer do nothing.
type Tracer struct {
	tracer   trace.Tracer
	queue    *queue
	delivery delivery
}

// New returns a tracer. Its Run sends spans. It registers a metric.
func New(settings Settings) *Tracer {
	spans := promauto.With(settings.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "codex_trace_spans_total",
		Help: "Spans of traces, by whether the collector took them; absent without traces.",
	}, []string{"outcome"})
	queue := newQueue(spans.WithLabelValues("dropped"))
	options := []sdk.TracerProviderOption{
		sdk.WithSpanProcessor(queue),
		sdk.WithResource(describe(settings)),
		// The limits are bounds of memory and of messages: no OTEL_SPAN_*_LIMIT may raise them.
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: maxText, AttributeCountLimit: maxAttributes, EventCountLimit: maxEvents,
		}),
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" { // otherwise the SDK reads it
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(settings.Ratio))))
	}
	return &Tracer{
		tracer: sdk.NewTracerProvider(options...).Tracer(scopeName, trace.WithInstrumentationVersion(settings.Version)),
		queue:  queue,
		delivery: delivery{
			send: newSocket(settings.Socket).send, logger: settings.Logger,
			sent: spans.WithLabelValues("sent"), dropped: queue.dropped,
		},
	}
}

// describe returns the resource: the environment takes precedence over the program's own attributes.
func describe(settings Settings) *resource.Resource {
	own := []attribute.KeyValue{attribute.String("service.name", scopeName)}
	for key, value := range map[string]string{"service.version": settings.Version, "host.name": settings.Host} {
		if value != "" {
			own = append(own, attribute.String(key, value))
		}
	}
	merged, err := resource.Merge(resource.NewSchemaless(own...), resource.Environment())
	if err != nil { // two schemas, of which one is ours and empty
		return resource.NewSchemaless(own...)
	}
	return merged
}

// Begin begins the span of a request that arrived with the header at the time began. It returns nil for a
// request that is not sampled. A valid traceparent decides that, as ParentBased has it; without one the
// ratio does.
func (t *Tracer) Begin(h http.Header, began time.Time) *Span {
	if t == nil {
		return nil
	}
	_, span := t.tracer.Start(remote(h), "", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
	if !span.SpanContext().IsSampled() {
		return nil
	}
	return &Span{tracer: t.tracer, span: span}
}

// Within begins the span of a request that is part of another request.
func (t *Tracer) Within(s *Span) *Span {
	if s == nil {
		return nil
	}
	return s.begin("", trace.WithSpanKind(trace.SpanKindServer))
}

// Run sends spans until ctx ends, and then, within two seconds, the spans that ended before. It returns nil.
func (t *Tracer) Run(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTime, cancel) })()
	for ctx.Err() == nil {
		if batch := t.queue.gather(ctx); len(batch) > 0 {
			t.delivery.deliver(ctx, sending, batch)
		}
	}
	for batch := t.queue.take(nil); len(batch) > 0; batch = t.queue.take(nil) {
		t.delivery.deliver(ctx, sending, batch)
	}
	return nil
}
