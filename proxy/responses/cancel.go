package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// cancelTimeout bounds the wait for a cancelled response to have ended.
const cancelTimeout = 5 * time.Second

// cancel serves POST /v1/responses/{id}/cancel.
func (l *lookups) cancel(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	running := l.running.Find(r.PathValue("id"), x.Key.Name)
	if running == nil {
		return l.cancelStored(w, r, x)
	}
	running.Cancel(inflight.ErrCancelled)
	ctx, cancel := context.WithTimeout(r.Context(), cancelTimeout)
	defer cancel()
	select {
	case <-running.Over:
	case <-ctx.Done():
		return cause.Of(r.Context(), errNotCancelledYet)
	}
	switch last := running.Last; {
	case last == nil:
		return responseNotFound(r)
	case last.Status != wire.StatusCancelled:
		return cannotCancel(last.Status)
	default:
		return l.sendEnded(w, r, x, last)
	}
}

var errNotCancelledYet = openai.Timeout("request_timeout", "the response is being cancelled, and has not ended yet")

// cancelStored cancels a response that is not in flight in this process. A background response that is cancelled
// already is an answer.
func (l *lookups) cancelStored(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if err := l.cancelElsewhere(r, x); err != nil {
		return err
	}
	object, status, err := l.status(r, x)
	switch {
	case err != nil:
		return err
	case status.Background && status.Status == wire.StatusCancelled:
		return l.Answers.JSON(w, rawObject(object))
	default:
		return cannotCancel(status.Status)
	}
}

func cannotCancel(status string) error {
	return openai.Invalid("response_not_cancellable", "", fmt.Sprintf("cannot cancel a %s response", status))
}

// statusOf are the members of a stored response that matter to its cancellation.
type statusOf struct {
	Status     string
	Background bool
}

// status reads the stored response that the path names.
func (l *lookups) status(r *http.Request, x *proxy.Exchange) (object []byte, s statusOf, err error) {
	size, err := l.sizeOf(r, x)
	if err != nil {
		return nil, s, err
	}
	if err := x.Grant.Body.Add(r.Context(), limits.PerByte*size); err != nil {
		return nil, s, err
	}
	object, err = l.Store.Object(r.Context(), x.Key.Name, r.PathValue("id"))
	if errors.Is(err, stored.ErrNotFound) {
		return nil, s, responseNotFound(r)
	}
	if err != nil {
		return nil, s, cause.Of(r.Context(), err)
	}
	if err := json.Unmarshal(object, &s); err != nil {
		return nil, s, fmt.Errorf("cannot read a stored response: %w", err)
	}
	return object, s, nil
}
