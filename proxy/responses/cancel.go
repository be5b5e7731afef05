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
	"codex-proxy/proxy/stored"
)

// cancelTimeout bounds the wait for a cancelled response to have ended.
const cancelTimeout = 5 * time.Second

// cancel serves POST /v1/responses/{id}/cancel.
func (e *Endpoint) cancel(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	running := e.running.find(r.PathValue("id"), x.Key.Name)
	if running == nil {
		status, err := e.status(r, x)
		if err != nil {
			return err
		}
		return cannotCancel(status)
	}
	running.cancel(errCancelled)
	ctx, cancel := context.WithTimeout(r.Context(), cancelTimeout)
	defer cancel()
	select {
	case <-running.over:
	case <-ctx.Done():
		return cause.Of(r.Context(),
			openai.Timeout("request_timeout", "the response is being cancelled, and has not ended yet"))
	}
	switch last := running.last; {
	case last == nil:
		return responseNotFound(r)
	case last.Status != openai.StatusCancelled:
		return cannotCancel(last.Status)
	default:
		if err := x.Grant.Body.Add(r.Context(), limits.PerByte*int64(last.Size())); err != nil {
			return err
		}
		return e.Answers.JSON(w, last)
	}
}

func cannotCancel(status string) error {
	return openai.Invalid("response_not_cancellable", "", fmt.Sprintf("cannot cancel a %s response", status))
}

// status is the status of the stored response that the path names.
func (e *Endpoint) status(r *http.Request, x *proxy.Exchange) (string, error) {
	size, err := e.sizeOf(r, x)
	if err != nil {
		return "", err
	}
	if err := x.Grant.Body.Add(r.Context(), limits.PerByte*size); err != nil {
		return "", err
	}
	object, err := e.Store.Object(r.Context(), x.Key.Name, r.PathValue("id"))
	if errors.Is(err, stored.ErrNotFound) {
		return "", responseNotFound(r)
	}
	if err != nil {
		return "", cause.Of(r.Context(), err)
	}
	var stored struct{ Status string }
	if err := json.Unmarshal(object, &stored); err != nil {
		return "", fmt.Errorf("cannot read a stored response: %w", err)
	}
	return stored.Status, nil
}
