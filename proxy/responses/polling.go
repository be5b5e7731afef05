package responses

import (
	"context"
	"errors"
	"net/http"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// pollEvery is how often a request looks whether the response of another process has ended.
const pollEvery = 10 * time.Millisecond

// inFlight finds a background response that has not ended, of any process. The error is stored.ErrNotFound if it is not
// in flight.
func (e *Endpoint) inFlight(ctx context.Context, owner, id string) (stored.InFlight, error) {
	if e.Store == nil {
		return stored.InFlight{}, stored.ErrNotFound
	}
	f, err := e.Store.InFlight(ctx, owner, id)
	if err != nil || !f.Dead {
		return f, err
	}
	if err := e.endAbandoned(ctx); err != nil {
		return f, err
	}
	return e.Store.InFlight(ctx, owner, id)
}

// isInFlight reports whether a background response has not ended.
func (e *Endpoint) isInFlight(ctx context.Context, owner, id string) bool {
	_, err := e.inFlight(ctx, owner, id)
	return err == nil
}

// getInFlight answers with a background response that has not ended, if the path names one.
func (l *lookups) getInFlight(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) (sent bool, err error) {
	id := r.PathValue("id")
	// perhaps it is not stored yet
	if run := l.running.Find(id, x.Key.Name); run != nil && run.IsOver() && run.Last != nil {
		return true, l.sendEnded(w, r, x, run.Last)
	}
	f, err := l.inFlight(r.Context(), x.Key.Name, id)
	if err == nil {
		err = x.Grant.Body.Add(r.Context(), limits.PerByte*f.Size)
	}
	var object []byte
	if err == nil {
		object, err = l.Store.InFlightObject(r.Context(), x.Key.Name, id)
	}
	switch {
	case errors.Is(err, stored.ErrNotFound): // or it has ended meanwhile
		return false, nil
	case err != nil:
		return false, cause.Of(r.Context(), err)
	}
	return true, l.Answers.JSON(w, rawObject(object))
}

// rawObject is JSON that is sent as it is.
type rawObject []byte

// MarshalJSON implements json.Marshaler.
func (o rawObject) MarshalJSON() ([]byte, error) { return o, nil }

// sendEnded sends a response that has just ended.
func (l *lookups) sendEnded(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, last *wire.Response) error {
	if err := x.Grant.Body.Add(r.Context(), limits.PerByte*int64(last.Size())); err != nil {
		return err
	}
	return l.Answers.JSON(w, last)
}

// cancelElsewhere cancels a background response of another process, and waits for its end.
func (l *lookups) cancelElsewhere(r *http.Request, x *proxy.Exchange) error {
	ctx, cancel := context.WithTimeoutCause(r.Context(), cancelTimeout, errNotCancelledYet)
	defer cancel()
	id := r.PathValue("id")
	if _, err := l.inFlight(ctx, x.Key.Name, id); errors.Is(err, stored.ErrNotFound) {
		return nil
	}
	if err := l.Store.Cancel(ctx, x.Key.Name, id); err != nil && !errors.Is(err, stored.ErrNotFound) {
		return cause.Of(ctx, err)
	}
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		_, err := l.inFlight(ctx, x.Key.Name, id)
		if errors.Is(err, stored.ErrNotFound) {
			return nil
		}
		if err != nil {
			return cause.Of(ctx, err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
