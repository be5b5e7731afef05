package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/workers"
)

// admission waits for a place on a worker, within queue_timeout and the limits
// of the request itself.
func (s *Server) admission(ctx context.Context, x *exchange, ask workers.Ask) (*workers.Lease, error) {
	began, span := time.Now(), x.span.Child("queue")
	lease, err := s.Pool.Acquire(ctx, ask)
	waited := time.Since(began)
	endQueue(span, err)
	x.queued += waited
	s.metrics.queueWait.Observe(waited.Seconds())
	if err != nil {
		s.metrics.queueRefused.WithLabelValues(refusal(err)).Inc()
	}
	switch {
	case err == nil:
		x.worker = lease.Worker
		return lease, nil
	case errors.Is(err, workers.ErrNoModel):
		return nil, s.noModel(x.limits, x.model)
	default:
		return nil, whyEnded(ctx, err)
	}
}

// unavailable explains why there was no place on a worker.
func (s *Server) unavailable(err error) *openai.Error {
	switch {
	case errors.Is(err, workers.ErrDraining):
		return openai.Unavailable("draining", "the service is stopping; send the request again in a moment", time.Second)
	case errors.Is(err, workers.ErrQueueFull):
		return tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			"the queue is full, and most of it are requests with this API key; send fewer at the same time", s.nextPlace())
	case errors.Is(err, workers.ErrDecoding):
		return openai.Unavailable("overloaded",
			"every worker is busy with the images of other requests; send the request again", s.nextPlace())
	case errors.Is(err, workers.ErrBusy):
		return openai.Unavailable("overloaded", "every worker is at its in-flight limit; send the request again", s.nextPlace())
	}
	r := s.Report()
	if r.Health.Readiness.Reason == probes.Draining {
		return openai.Unavailable("draining", "every worker that could take it is drained; send the request again later", probes.RetryAfter(r, time.Now()))
	}
	message := fmt.Sprintf("no worker is ready: %s", r.Health.Readiness.Reason)
	if r.Health.Readiness.Ready {
		message = "the worker that has this model is not ready"
	}
	return openai.Unavailable("worker_not_ready", message+"; GET /readyz tells more", probes.RetryAfter(r, time.Now()))
}

// nextPlace is Retry-After for who met the limit: when a new request could
// expect a place.
func (s *Server) nextPlace() time.Duration { return probes.ClampRetry(s.Pool.EstimatedWait()) }
