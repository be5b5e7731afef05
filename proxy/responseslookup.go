package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// cancelTimeout bounds the wait for a cancelled response to have ended.
const cancelTimeout = 5 * time.Second

// response serves GET /v1/responses/{id}.
func (s *Server) response(w http.ResponseWriter, r *http.Request) error {
	if value := r.URL.Query().Get("stream"); value != "" && value != "false" {
		return openai.Invalid("unsupported_parameter", "stream", "a stored response is not streamed; leave stream out")
	}
	x, id := exchangeOf(r), r.PathValue("id")
	size, err := s.sizeOf(r)
	if err != nil {
		return err
	}
	l := &lent{size: size, held: x.held.another(), read: func(ctx context.Context, from, n int64) ([]byte, error) {
		return s.Responses.ObjectPart(ctx, x.key, id, from, n)
	}}
	return s.answerLent(w, r, []piece{{lent: l}})
}

// sizeOf is how many bytes the stored response has that the path names.
func (s *Server) sizeOf(r *http.Request) (int64, error) {
	if s.Responses == nil {
		return 0, responseNotFound(r)
	}
	size, err := s.Responses.ObjectSize(r.Context(), exchangeOf(r).key, r.PathValue("id"))
	if errors.Is(err, stored.ErrNotFound) {
		return 0, responseNotFound(r)
	}
	return size, whyEnded(r.Context(), err)
}

// status is that of the stored response that the path names.
func (s *Server) status(r *http.Request) (string, error) {
	size, err := s.sizeOf(r)
	if err != nil {
		return "", err
	}
	x := exchangeOf(r)
	if err := x.held.add(r.Context(), perByte*size); err != nil {
		return "", err
	}
	object, err := s.Responses.Object(r.Context(), x.key, r.PathValue("id"))
	if errors.Is(err, stored.ErrNotFound) {
		return "", responseNotFound(r)
	}
	if err != nil {
		return "", whyEnded(r.Context(), err)
	}
	var stored struct{ Status string }
	if err := json.Unmarshal(object, &stored); err != nil {
		return "", fmt.Errorf("cannot read a stored response: %w", err)
	}
	return stored.Status, nil
}

func responseNotFound(r *http.Request) error {
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "response_not_found", Param: "response_id",
		Message: fmt.Sprintf("response %q not found: it was not stored, or its time is over", bounded(r.PathValue("id"))),
	}
}

// deleteResponse serves DELETE /v1/responses/{id}.
func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) error {
	if s.Responses == nil {
		return responseNotFound(r)
	}
	id := r.PathValue("id")
	switch err := s.Responses.Delete(r.Context(), exchangeOf(r).key, id); {
	case errors.Is(err, stored.ErrNotFound):
		return responseNotFound(r)
	case err != nil:
		return whyEnded(r.Context(), err)
	}
	return s.writeJSON(w, openai.ResponseDeleted{ID: id, Object: "response", Deleted: true})
}

// cancelResponse serves POST /v1/responses/{id}/cancel.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) error {
	running := s.running.find(r.PathValue("id"), exchangeOf(r).key)
	if running == nil {
		status, err := s.status(r)
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
		return whyEnded(r.Context(), openai.Timeout("request_timeout", "the response is being cancelled, and has not ended yet"))
	}
	switch last := running.last; {
	case last == nil:
		return responseNotFound(r)
	case last.Status != openai.StatusCancelled:
		return cannotCancel(last.Status)
	default:
		if err := exchangeOf(r).held.add(r.Context(), perByte*int64(last.Size())); err != nil {
			return err
		}
		return s.writeJSON(w, last)
	}
}

func cannotCancel(status string) error {
	return openai.Invalid("response_not_cancellable", "", fmt.Sprintf("cannot cancel a %s response", status))
}

// inputItems serves GET /v1/responses/{id}/input_items.
func (s *Server) inputItems(w http.ResponseWriter, r *http.Request) error {
	limit, descending, err := listing(r)
	if err != nil {
		return err
	}
	if s.Responses == nil {
		return responseNotFound(r)
	}
	items, err := s.Responses.InputHeads(r.Context(), exchangeOf(r).key, r.PathValue("id"))
	switch {
	case errors.Is(err, stored.ErrNotFound), errors.Is(err, stored.ErrBroken):
		return responseNotFound(r)
	case errors.Is(err, stored.ErrTooLong):
		return tooLong("response_id", "list the items of an earlier response")
	case err != nil:
		return whyEnded(r.Context(), err)
	}
	if descending {
		slices.Reverse(items)
	}
	if after := r.URL.Query().Get("after"); after != "" {
		at := slices.IndexFunc(items, func(i stored.Head) bool { return i.ID == after })
		if at < 0 {
			return openai.Invalid("invalid_value", "after", "after must be the id of one of the items")
		}
		items = items[at+1:]
	}
	return s.listItems(w, r, items[:min(limit, len(items))], len(items) > limit)
}

// listItems answers with a list of items, one after another.
func (s *Server) listItems(w http.ResponseWriter, r *http.Request, items []stored.Head, more bool) error {
	list := openai.ItemList{Object: "list", Data: []json.RawMessage{}, HasMore: more}
	if len(items) > 0 {
		list.FirstID, list.LastID = &items[0].ID, &items[len(items)-1].ID
	}
	frame, err := openai.Encode(list)
	if err != nil {
		return fmt.Errorf("cannot encode a list: %w", err)
	}
	before, after, _ := bytes.Cut(frame, []byte(`"data":[`))
	pieces := []piece{{text: string(before) + `"data":[`}}
	for i, item := range items {
		if i > 0 {
			pieces = append(pieces, piece{text: ","})
		}
		pieces = append(pieces, piece{lent: s.lendItem(r, item)})
	}
	return s.answerLent(w, r, append(pieces, piece{text: string(after)}))
}

func (s *Server) lendItem(r *http.Request, item stored.Head) *lent {
	return &lent{size: item.Size, held: exchangeOf(r).held.another(), read: func(ctx context.Context, from, n int64) ([]byte, error) {
		return s.Responses.BodyPart(ctx, item, from, n)
	}}
}

// listing reads how a list is to be. Source: OpenAI API reference, "List input items".
func listing(r *http.Request) (limit int, descending bool, err error) {
	query := r.URL.Query()
	limit = 20
	if value := query.Get("limit"); value != "" {
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > 100 {
			return 0, false, openai.Invalid("invalid_value", "limit", "limit must be between 1 and 100")
		}
	}
	switch query.Get("order") {
	case "", "desc":
		return limit, true, nil
	case "asc":
		return limit, false, nil
	default:
		return 0, false, openai.Invalid("invalid_value", "order", "order must be asc or desc")
	}
}
