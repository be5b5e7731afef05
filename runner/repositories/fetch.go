package repositories

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/runner/api/wire"
)

// fetch has Due return a fetch, and returns the commit that the ref means then. Requests for the same ref that wait
// share one fetch; none shares a fetch that has begun, as the origin may have changed since. If ctx ends, a fetch that
// has begun goes on.
func (r *Repositories) fetch(ctx context.Context, f *fetch) (commit string, err error) {
	f = r.mirrors.join(f)
	r.Announce()
	select {
	case <-f.done:
		return f.commit, f.err
	case <-ctx.Done():
		r.mirrors.leave(f)
		return "", context.Cause(ctx)
	}
}

// Due takes the work that is to be started, each to run in a goroutine.
func (r *Repositories) Due() (work []func(context.Context)) {
	for f := r.mirrors.next(); f != nil; f = r.mirrors.next() {
		work = append(work, func(ctx context.Context) { r.run(ctx, f) })
	}
	return work
}

// run runs a fetch and answers the requests that wait for it.
func (r *Repositories) run(ctx context.Context, f *fetch) {
	began := time.Now()
	f.commit, f.err = r.fetcher.fetch(ctx, f)
	refused, ok := errors.AsType[*wire.Error](f.err)
	switch failure := f.err; {
	case ctx.Err() != nil:
		f.err = wire.Refuse(wire.Unavailable, "try again", "the service stops")
	case ok && refused.Code == wire.UnknownRef:
		failure = nil // of the fetch
		fallthrough
	default:
		r.record(f, time.Since(began), failure)
	}
	r.mirrors.finish(f)
	r.Announce()
	r.Trim()
}

// newMetrics registers the metrics, unless the registry is nil.
func newMetrics(registry prometheus.Registerer) *prometheus.CounterVec {
	return metric.Closed(promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "codex_runner_fetches_total",
		Help: "Fetches of repositories, by result."}, []string{"result"}), "ok", "failed")
}

// record counts a fetch, and writes its event to the journal, where internal/journal explains it.
func (r *Repositories) record(f *fetch, took time.Duration, failure error) {
	of := f.repository
	if failure != nil {
		r.metrics.WithLabelValues("failed").Inc()
		r.Logger.Warn("a repository could not be fetched", "repository", of.Name(), "key", of.Key, "took", took,
			"error",
			failure)
		return
	}
	r.metrics.WithLabelValues("ok").Inc()
	r.Logger.Info("a repository was fetched", "repository", of.Name(), "key", of.Key, "took", took)
}
