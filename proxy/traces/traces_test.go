package traces

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	parent  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	aWhile  = 10 * time.Minute
	version = "1.2.3"
)

// tracer returns a tracer whose batches go to send.
func tracer(ratio float64, log *strings.Builder, send func(context.Context, []byte) (int64, error)) *Tracer {
	t := New(Settings{
		Ratio: ratio, Version: version, Host: "here", Registry: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	t.delivery.send = send
	return t
}

func header(values ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(values); i += 2 {
		h.Add(values[i], values[i+1])
	}
	return h
}

// decode reads a message as a collector does.
func decode(t *testing.T, message []byte) (resource map[string]any, spans []*otlp.Span) {
	t.Helper()
	var request collector.ExportTraceServiceRequest
	require.NoError(t, proto.Unmarshal(message, &request))
	require.Len(t, request.ResourceSpans, 1)
	require.Len(t, request.ResourceSpans[0].ScopeSpans, 1)
	resource = map[string]any{}
	for _, a := range request.ResourceSpans[0].Resource.Attributes {
		resource[a.Key] = a.Value.GetStringValue()
	}
	scope := request.ResourceSpans[0].ScopeSpans[0]
	assert.Equal(t, "codex-proxy", scope.Scope.Name)
	assert.Equal(t, version, scope.Scope.Version)
	return resource, scope.Spans
}

func texts(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

// A message is OTLP and holds everything recorded.
func TestSpansOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := make(chan []byte, 1)
		var log strings.Builder
		tr := tracer(1, &log, func(_ context.Context, b []byte) (int64, error) { messages <- b; return 0, nil })
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- tr.Run(ctx) }()

		began := time.Now()
		s := tr.Begin(header("Traceparent", parent, "Tracestate", "a=1", "Tracestate", "b=2"), began)
		turn := s.Child("turn")
		time.Sleep(time.Second)
		turn.Once("first_token")
		time.Sleep(time.Second)
		turn.Once("first_token")
		turn.Number("codex.attempt", 2)
		turn.Fail("lost")
		turn.End()
		s.Name("POST /v1/x")
		s.Text("model", "g\xff"+strings.Repeat("x", 2*maxText))
		s.Text("nothing", "")
		s.End()
		resource, spans := decode(t, <-messages)
		assert.Equal(t, map[string]any{
			"service.name": "codex-proxy", "service.version": version, "host.name": "here",
		}, resource)
		require.Len(t, spans, 2)
		inner, outer := spans[0], spans[1]

		assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(outer.TraceId))
		assert.Equal(t, "b7ad6b7169203331", hex.EncodeToString(outer.ParentSpanId))
		assert.Equal(t, "POST /v1/x", outer.Name)
		assert.Equal(t, otlp.Span_SPAN_KIND_SERVER, outer.Kind)
		assert.Equal(t, "a=1,b=2", outer.TraceState)
		assert.EqualValues(t, 0x301, outer.Flags, "sampled, with a remote parent")
		assert.EqualValues(t, began.UnixNano(), outer.StartTimeUnixNano)
		assert.EqualValues(t, began.Add(2*time.Second).UnixNano(), outer.EndTimeUnixNano)
		assert.Equal(t, otlp.Status_STATUS_CODE_UNSET, outer.Status.GetCode())
		assert.Equal(t, map[string]string{"model": "g" + strings.Repeat("x", maxText-2)}, texts(outer))

		assert.Equal(t, outer.TraceId, inner.TraceId)
		assert.Equal(t, outer.SpanId, inner.ParentSpanId)
		assert.NotEqual(t, outer.SpanId, inner.SpanId)
		assert.Equal(t, otlp.Span_SPAN_KIND_INTERNAL, inner.Kind)
		assert.Equal(t, "a=1,b=2", inner.TraceState)
		assert.EqualValues(t, 0x101, inner.Flags)
		assert.Equal(t, otlp.Status_STATUS_CODE_ERROR, inner.Status.Code)
		assert.Equal(t, "lost", texts(inner)["error.type"])
		assert.EqualValues(t, 2, inner.Attributes[0].Value.GetIntValue())
		require.Len(t, inner.Events, 1)
		assert.Equal(t, "first_token", inner.Events[0].Name)
		assert.EqualValues(t, began.Add(time.Second).UnixNano(), inner.Events[0].TimeUnixNano)

		cancel()
		assert.NoError(t, <-ran)
		assert.Equal(t, 2., testutil.ToFloat64(tr.delivery.sent))
		assert.Empty(t, log.String())
	})
}

// The cases are examples of W3C Trace Context.
func TestTraceparent(t *testing.T) {
	for text, valid := range map[string]bool{
		parent: true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":                        true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":                        true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings": true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what":                   false,
		parent + "-more": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331":    false,
		"": false,
	} {
		c := trace.SpanContextFromContext(remote(header("Traceparent", text)))
		assert.Equal(t, valid, c.IsValid(), text)
		assert.Equal(t, valid && strings.Contains(text, "-01"), c.IsSampled(), text)
	}
	c := trace.SpanContextFromContext(remote(header("Traceparent", parent, "Traceparent", parent)))
	assert.False(t, c.IsValid(), "two parents")
	for length, kept := range map[int]bool{maxState: true, maxState + 1: false} {
		state := "a=" + strings.Repeat("x", 200) + ",b=" + strings.Repeat("x", 200) + ",c="
		state += strings.Repeat("x", length-len(state))
		c := trace.SpanContextFromContext(remote(header("Traceparent", parent, "Tracestate", state)))
		assert.True(t, c.IsValid())
		assert.Equal(t, kept, c.TraceState().String() == state, "%d", length)
		assert.Equal(t, kept, c.TraceState().Len() > 0, "%d", length)
	}
}

// The span of a client's traceparent is passed on in the same words.
func FuzzTraceparent(f *testing.F) {
	f.Add(parent)
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
	f.Fuzz(func(t *testing.T, text string) {
		c := trace.SpanContextFromContext(remote(header("Traceparent", text)))
		if c.IsValid() {
			assert.Equal(t, text[3:52], c.TraceID().String()+"-"+c.SpanID().String())
		}
	})
}

// The client's traceparent decides whether a request is traced; without one the ratio does.
func TestSampling(t *testing.T) {
	unsampled := strings.TrimSuffix(parent, "1") + "0"
	all, none := tracer(1, nil, nil), tracer(0, nil, nil)
	assert.NotNil(t, none.Begin(header("Traceparent", parent), time.Now()))
	assert.Nil(t, all.Begin(header("Traceparent", unsampled), time.Now()))
	assert.Nil(t, none.Begin(header(), time.Now()))
	s := all.Begin(header("Traceparent", "nonsense", "Tracestate", "a=1"), time.Now())
	require.NotNil(t, s)
	c, ok := s.Child("turn").Context()
	require.True(t, ok)
	assert.Empty(t, c.Tracestate, "of a trace that is not known")
	again := trace.SpanContextFromContext(remote(header("Traceparent", c.Traceparent)))
	assert.Equal(t, s.TraceID(), again.TraceID().String())
	assert.NotEqual(t, s.span.SpanContext().SpanID(), again.SpanID())
	assert.NotEqual(t, "0af7651916cd43dd8448eb211c80319c", s.TraceID())
}

// Without a tracer nothing is allocated.
func TestOffCostsNothing(t *testing.T) {
	var off *Tracer
	h, now := header("Traceparent", parent), time.Now()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s := off.Begin(h, now)
		turn := off.Within(s).Child("turn")
		turn.Once("first_token")
		turn.Text("a", "b")
		turn.Number("a", 1)
		turn.Fail("lost")
		turn.Name("x")
		if _, ok := turn.Context(); ok || turn.TraceID() != "" {
			panic("there is a trace")
		}
		turn.End()
		s.End()
	}))
}

// The tracer retries a collector that is away for a while and drops further spans; no request waits, and the
// log has one warning a minute.
func TestCollectorIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		tries, back := 0, make(chan struct{})
		tr := tracer(1, &log, func(context.Context, []byte) (int64, error) {
			tries++
			select {
			case <-back:
				return 1, nil
			default:
				return 0, passingError{errors.New("connection refused")}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- tr.Run(ctx) }()
		began := time.Now()
		tr.Begin(header(), began).End()
		time.Sleep(5 * time.Second) // Run is at its pauses
		for range maxWaiting + 10 {
			tr.Begin(header(), began).End()
		}
		assert.Equal(t, 5*time.Second, time.Since(began), "requests wait")
		assert.Equal(t, 10., testutil.ToFloat64(tr.delivery.dropped))
		time.Sleep(aWhile)
		synctest.Wait()
		assert.Equal(t, 5*9, tries, "five tries of each batch")
		assert.Equal(t, maxWaiting+11., testutil.ToFloat64(tr.delivery.dropped))
		warnings := strings.Count(log.String(), "traces cannot be sent")
		assert.GreaterOrEqual(t, warnings, 2)
		assert.LessOrEqual(t, warnings, 4, "once a minute: %s", log.String())

		close(back)
		tr.Begin(header(), began).End()
		tr.Begin(header(), began).End()
		time.Sleep(aWhile)
		synctest.Wait()
		assert.Equal(t, 1., testutil.ToFloat64(tr.delivery.sent), "one was rejected")
		cancel()
		assert.NoError(t, <-ran)
	})
}

// The end of Run sends every span and takes at most flushTime.
func TestFlush(t *testing.T) {
	for name, hangs := range map[string]bool{"quick": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				tr := tracer(1, &log, func(ctx context.Context, _ []byte) (int64, error) {
					if hangs {
						<-ctx.Done()
					}
					return 0, ctx.Err()
				})
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- tr.Run(ctx) }()
				synctest.Wait()
				for range 3 * maxBatch {
					tr.Begin(header(), time.Now()).End()
				}
				began := time.Now()
				cancel()
				assert.NoError(t, <-ran)
				outcome, took := "sent", time.Duration(0)
				if hangs {
					outcome, took = "dropped", flushTime
				}
				assert.Equal(t, took, time.Since(began))
				counters := map[string]prometheus.Counter{"sent": tr.delivery.sent, "dropped": tr.delivery.dropped}
				assert.Equal(t, float64(3*maxBatch), testutil.ToFloat64(counters[outcome]))
				time.Sleep(flushTime) // its timer
			})
		})
	}
}
