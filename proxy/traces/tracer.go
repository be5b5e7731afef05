package traces

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	// maxWaiting bounds the spans that wait to be sent, about 1 KiB each. Those
	// of 2 s of the busiest service fit; what is more is dropped.
	maxWaiting = 4096
	// maxBatch is the most spans of one message, and gatherTime the longest that
	// the first of them waits for the others.
	maxBatch   = 512
	gatherTime = time.Second
	// flushTime bounds what is sent at the end.
	flushTime = 2 * time.Second
	// silence is the least time between two complaints in the log.
	silence = time.Minute
)

// Settings is what a Tracer needs.
type Settings struct {
	// Socket is the path of a Forwarder's.
	Socket string
	// Ratio of the requests that are traced, of those whose client has no opinion.
	Ratio float64
	// Version is that of the program, Host the name of the machine.
	Version, Host string
	Registry      prometheus.Registerer
	Logger        *slog.Logger
}

// Tracer makes spans and sends them. Create it with New. Its methods may be
// called from any goroutine; those of a nil *Tracer do nothing.
type Tracer struct {
	Settings

	ended chan *Span
	send  func(ctx context.Context, batch []byte) (rejected int64, err error)
	spans *prometheus.CounterVec
	told  time.Time // when the log last had a complaint; Run's own
}

// New returns a tracer whose Run sends. It registers its metric.
func New(settings Settings) *Tracer {
	t := &Tracer{Settings: settings, ended: make(chan *Span, maxWaiting), send: newSender(settings.Socket).send}
	t.spans = promauto.With(settings.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "codex_trace_spans_total", Help: "Spans of traces, by whether the collector took them; absent without traces.",
	}, []string{"outcome"})
	t.spans.WithLabelValues("sent")
	t.spans.WithLabelValues("dropped")
	return t
}

// Begin begins the span of a request that came with that header; nil if it is
// not to be traced. A client that says whether its own trace is sampled decides;
// without one, the ratio does.
func (t *Tracer) Begin(h http.Header, at time.Time) *Span {
	if t == nil {
		return nil
	}
	from, known := parse(h)
	switch {
	case known && !from.sampled, !known && rand.Float64() >= t.Ratio:
		return nil
	case !known:
		from.trace = newTraceID()
	}
	return &Span{
		tracer: t, trace: from.trace, id: newSpanID(), parent: from.span, state: from.state,
		remote: known, kind: kindServer, began: at,
	}
}

// Within begins the span of a request that is part of another one.
func (t *Tracer) Within(s *Span) *Span {
	inner := s.Child("")
	if inner != nil {
		inner.kind = kindServer
	}
	return inner
}

func (t *Tracer) take(s *Span) {
	select {
	case t.ended <- s:
	default:
		t.spans.WithLabelValues("dropped").Inc()
	}
}

// Run sends spans until ctx ends, and then, within two seconds, those that have
// ended before. It returns nil.
func (t *Tracer) Run(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTime, cancel) })()
	for ctx.Err() == nil {
		if batch := t.gather(ctx); len(batch) > 0 {
			t.deliver(ctx, sending, batch)
		}
	}
	for batch := t.rest(nil); len(batch) > 0; batch = t.rest(nil) {
		t.deliver(ctx, sending, batch)
	}
	return nil
}

// gather waits for a span, and a little for others.
func (t *Tracer) gather(ctx context.Context) []*Span {
	var batch []*Span
	select {
	case s := <-t.ended:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	enough := time.NewTimer(gatherTime)
	defer enough.Stop()
	for len(batch) < maxBatch {
		select {
		case s := <-t.ended:
			batch = append(batch, s)
		case <-enough.C:
			return batch
		case <-ctx.Done():
			return t.rest(batch)
		}
	}
	return batch
}

// rest takes what is there, up to a batch.
func (t *Tracer) rest(batch []*Span) []*Span {
	for len(batch) < maxBatch {
		select {
		case s := <-t.ended:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// deliver sends a batch, and again for some seconds if the collector is away.
func (t *Tracer) deliver(ctx, sending context.Context, batch []*Span) {
	message := encode(t.Version, t.Host, batch)
	var rejected int64
	var err error
	for wait := firstWait; ; wait *= 2 {
		if rejected, err = t.send(sending, message); err == nil || !passing(err) || wait > lastWait {
			break
		}
		t.complain(err)
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
			continue
		case <-ctx.Done(): // once more, and no more
			pause.Stop()
			wait = lastWait
		}
	}
	if err != nil {
		t.complain(err)
		rejected = int64(len(batch))
	}
	rejected = min(max(rejected, 0), int64(len(batch)))
	t.spans.WithLabelValues("dropped").Add(float64(rejected))
	t.spans.WithLabelValues("sent").Add(float64(int64(len(batch)) - rejected))
}

func (t *Tracer) complain(err error) {
	if time.Since(t.told) >= silence {
		t.told = time.Now()
		t.Logger.Warn("traces cannot be sent", "error", err)
	}
}
