package responses

import (
	"context"
	"net/http"
	"sync"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/wire"
)

const (
	// sweepEvery is how often the endpoint looks for responses of processes that have ended, which requests for them
	// find at once.
	sweepEvery = 10 * time.Second
	// obeyEvery is how often it looks for orders if the kernel reports none.
	obeyEvery = time.Second
)

// Run cancels background responses that clients of other processes have cancelled, and ends the responses of ended
// processes, until ctx ends; then it returns nil.
func (e *Endpoint) Run(ctx context.Context) error {
	if e.Store == nil {
		<-ctx.Done()
		return nil
	}
	var events sync.WaitGroup
	defer events.Wait()
	events.Go(func() { _ = e.Store.Logs().Run(ctx) }) // without it, followers look by themselves
	select {
	case <-e.Store.Logs().Opened():
	case <-ctx.Done():
		return nil
	}
	signals, stop := e.Store.Logs().Signals()
	defer stop()
	sweep, obey := time.NewTicker(sweepEvery), time.NewTicker(obeyEvery)
	defer sweep.Stop()
	defer obey.Stop()
	if signals != nil {
		obey.Stop()
	}
	_ = e.endAbandoned(ctx) // the next sweep tries again
	for {
		select {
		case <-signals:
			e.obey(ctx)
		case <-obey.C:
			e.obey(ctx)
		case <-sweep.C:
			_ = e.endAbandoned(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// obey cancels the responses that clients of other processes have cancelled or deleted.
func (e *Endpoint) obey(ctx context.Context) {
	ids, err := e.Store.Ordered(ctx)
	if err != nil {
		return // the next signal has it tried again
	}
	for _, id := range ids {
		e.running.Cancel(id)
	}
}

// errAbandoned is the error of a response after the end of its process.
var errAbandoned = &openai.Error{
	Status: http.StatusInternalServerError, Type: openai.TypeServer,
	Message: "the service ended before the response was finished; send the request again",
}

// endAbandoned ends the background responses of processes that have ended.
func (e *Endpoint) endAbandoned(ctx context.Context) error {
	ended, err := e.Store.EndAbandoned(ctx, abandonedEnd)
	e.metrics.ended.WithLabelValues(wire.StatusCancelled).Add(float64(ended.Cancelled + ended.Deleted))
	e.metrics.ended.WithLabelValues(wire.StatusFailed).Add(float64(ended.Failed))
	if ended.Failed > 0 {
		e.Server.Logger.Warn("background responses of a process that has ended have failed", "responses", ended.Failed)
	}
	if err != nil && ctx.Err() == nil {
		e.Server.Logger.Error("cannot end the background responses of a process that has ended", "error", err)
	}
	return err
}

// abandonedEnd makes the end of one of them. One that a client has cancelled is cancelled.
func abandonedEnd(object []byte, sequence int, cancelled bool) (ended, events []byte, err error) {
	reason := errAbandoned
	if cancelled {
		reason = nil
	}
	response, missing, err := eventstream.End(object, sequence, reason)
	if err != nil {
		return nil, nil, err
	}
	if ended, err = openai.Encode(response); err != nil {
		return nil, nil, err
	}
	events, err = eventstream.Encode(missing...)
	return ended, events, err
}
