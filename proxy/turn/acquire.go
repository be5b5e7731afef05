package turn

import (
	"context"
	"time"

	"codex-proxy/internal/cause"
)

// acquire waits for a place on a worker, within the timeout of the queue and of ctx,
// and begins an attempt there.
func (t *run) acquire(ctx context.Context) (err error) {
	began, span := time.Now(), t.Span.Child("queue")
	t.lease, err = t.Pool.Acquire(ctx, t.ask)
	waited := time.Since(began)
	endQueue(span, err)
	t.Report.Queued += waited
	t.metrics.queueWait.Observe(waited.Seconds())
	if err != nil {
		t.metrics.queueRefused.WithLabelValues(refusal(err)).Inc()
		return orUnserved(t, cause.Of(ctx, err))
	}
	t.Report.Worker = t.lease.Worker
	t.Report.Attempts++
	t.span = t.Span.Child("turn")
	t.sink.Begin(&Attempt{Number: t.Report.Attempts, Worker: t.Report.Worker, run: t})
	return nil
}
