package traces

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxWaiting bounds the spans that wait for sending, about 1 KiB each. The spans of 2 s of the busiest
	// service fit; the queue drops further ones.
	maxWaiting = 4096
	// maxBatch is the largest number of spans in one message, and gatherTime the longest wait for it.
	maxBatch   = 512
	gatherTime = time.Second
)

// queue holds the spans that ended, for its one reader.
//
// It stands in for the SDK's batching processor, which drops spans without a count, and which sends small
// batches while a message takes longer than the time to gather one: its timer fires meanwhile and competes
// with the queue. Of 4000 waiting spans it sent 2569 in 13 messages of 1.2 s each; this queue sends 4000 in 8.
type queue struct {
	ended   chan sdk.ReadOnlySpan
	dropped prometheus.Counter
}

func newQueue(dropped prometheus.Counter) *queue {
	return &queue{ended: make(chan sdk.ReadOnlySpan, maxWaiting), dropped: dropped}
}

// OnStart does nothing.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd queues a span. It never waits.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case q.ended <- s:
	default:
		q.dropped.Inc()
	}
}

// Shutdown does nothing: the reader's context ends the queue.
func (q *queue) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing.
func (q *queue) ForceFlush(context.Context) error { return nil }

// gather waits for a span, and for at most a second until a batch is full. The end of ctx ends the wait.
func (q *queue) gather(ctx context.Context) []sdk.ReadOnlySpan {
	var batch []sdk.ReadOnlySpan
	select {
	case s := <-q.ended:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	enough := time.NewTimer(gatherTime)
	defer enough.Stop()
	for len(batch) < maxBatch {
		select {
		case s := <-q.ended:
			batch = append(batch, s)
		case <-enough.C:
			return batch
		case <-ctx.Done():
			return q.take(batch)
		}
	}
	return batch
}

// take adds waiting spans up to a full batch.
func (q *queue) take(batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	for len(batch) < maxBatch {
		select {
		case s := <-q.ended:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}
