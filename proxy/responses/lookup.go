package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/storedanswer"
)

// lookups serves the requests for an existing response: to get it or its items, to cancel it and to delete it.
type lookups struct{ *Endpoint }

// get serves GET /v1/responses/{id}.
func (l *lookups) get(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if wantsStream(w, r) {
		return l.resume(w, r, x)
	}
	if sent, err := l.getInFlight(w, r, x); sent || err != nil {
		return err
	}
	id := r.PathValue("id")
	size, err := l.sizeOf(r, x)
	if err != nil {
		return err
	}
	return deletedMeanwhile(r, l.stored().Send(w, r, x, storedanswer.Piece{Stored: &storedanswer.Bytes{
		Size: size, Held: x.Grant.Body.Another(),
		Read: func(ctx context.Context, from, n int64) ([]byte, error) {
			return l.Store.ObjectPart(ctx, x.Key.Name, id, from, n)
		},
	}}))
}

// deletedMeanwhile is the error if the stored bytes of an answer were deleted before they were read.
func deletedMeanwhile(r *http.Request, err error) error {
	if errors.Is(err, stored.ErrNotFound) {
		return responseNotFound(r)
	}
	return err
}

// longestQuestion is how long the body of a GET may be that is read.
const longestQuestion = 256

// wantsStream reports whether a GET asks for the stream of a response. openai-go (GetStreaming) asks for it in a body
// of JSON, without a Content-Type.
func wantsStream(w http.ResponseWriter, r *http.Request) bool {
	if value := r.URL.Query().Get("stream"); value != "" {
		return value != "false"
	}
	if r.ContentLength <= 0 || r.ContentLength > longestQuestion {
		return false
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(proxy.BodyTimeout)) // net/http's connections have deadlines
	body, err := io.ReadAll(r.Body)
	_ = control.SetReadDeadline(time.Time{})
	var asked struct {
		Stream bool `json:"stream"`
	}
	return err == nil && json.Unmarshal(body, &asked) == nil && asked.Stream
}

// stored sends answers out of the store.
func (l *lookups) stored() *storedanswer.Writer {
	return &storedanswer.Writer{Answers: l.Answers, Logger: l.Server.Logger}
}

// sizeOf is the size in bytes of the stored response that the path names.
func (l *lookups) sizeOf(r *http.Request, x *proxy.Exchange) (int64, error) {
	if l.Store == nil {
		return 0, responseNotFound(r)
	}
	size, err := l.Store.ObjectSize(r.Context(), x.Key.Name, r.PathValue("id"))
	if errors.Is(err, stored.ErrNotFound) {
		return 0, responseNotFound(r)
	}
	return size, cause.Of(r.Context(), err)
}

func responseNotFound(r *http.Request) error {
	return notFound(r, "it was not stored, or its time is over")
}

func notFound(r *http.Request, why string) error {
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
		Code: "response_not_found", Param: "response_id",
		Message: fmt.Sprintf("response %q not found: %s", openai.Bounded(r.PathValue("id")), why),
	}
}

// delete serves DELETE /v1/responses/{id}.
func (l *lookups) delete(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if l.Store == nil {
		return responseNotFound(r)
	}
	id := r.PathValue("id")
	switch err := l.Store.Delete(r.Context(), x.Key.Name, id); {
	case errors.Is(err, stored.ErrNotFound):
		return responseNotFound(r)
	case err != nil:
		return cause.Of(r.Context(), err)
	}
	l.running.Cancel(id) // a background response
	return l.Answers.JSON(w, wire.Deleted{ID: id, Object: "response", Deleted: true})
}
