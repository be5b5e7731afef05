package proxy

import (
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
	object, err := s.object(r)
	if err != nil {
		return err
	}
	return s.writeJSON(w, object)
}

// object is the stored response that the path names.
func (s *Server) object(r *http.Request) (json.RawMessage, error) {
	if s.Responses == nil {
		return nil, responseNotFound(r)
	}
	object, err := s.Responses.Object(r.Context(), exchangeOf(r).key, r.PathValue("id"))
	if errors.Is(err, stored.ErrNotFound) {
		return nil, responseNotFound(r)
	}
	return object, whyEnded(r.Context(), err)
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
		object, err := s.object(r)
		if err != nil {
			return err
		}
		var stored struct{ Status string }
		if err := json.Unmarshal(object, &stored); err != nil {
			return fmt.Errorf("cannot read a stored response: %w", err)
		}
		return cannotCancel(stored.Status)
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
		return s.writeJSON(w, last)
	}
}

func cannotCancel(status string) error {
	return openai.Invalid("response_not_cancellable", "", fmt.Sprintf("cannot cancel a %s response", status))
}

// input is all that the model was given for the response that the path names.
func (s *Server) input(r *http.Request) ([]stored.Item, error) {
	x, id := exchangeOf(r), r.PathValue("id")
	_, size, err := s.Responses.About(r.Context(), x.key, id)
	if err != nil {
		return nil, err
	}
	if err := x.held.take(r.Context(), size); err != nil {
		return nil, err
	}
	return s.Responses.Input(r.Context(), x.key, id)
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
	items, err := s.input(r)
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
		at := slices.IndexFunc(items, func(i stored.Item) bool { return i.ID == after })
		if at < 0 {
			return openai.Invalid("invalid_value", "after", "after must be the id of one of the items")
		}
		items = items[at+1:]
	}
	list := openai.ItemList{Object: "list", Data: []json.RawMessage{}, HasMore: len(items) > limit}
	for _, item := range items[:min(limit, len(items))] {
		list.Data = append(list.Data, item.JSON)
		if list.FirstID == nil {
			list.FirstID = new(item.ID)
		}
		list.LastID = new(item.ID)
	}
	return s.writeJSON(w, list)
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
