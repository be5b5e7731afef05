package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// inputItems serves GET /v1/responses/{id}/input_items.
func (e *Endpoint) inputItems(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	limit, descending, err := listing(r)
	if err != nil {
		return err
	}
	encrypted, err := openai.IncludesEncrypted(includes(r.URL.Query()))
	if err != nil {
		return err
	}
	if e.Store == nil {
		return responseNotFound(r)
	}
	items, err := e.Store.InputHeads(r.Context(), x.Key.Name, r.PathValue("id"), encrypted)
	switch {
	case errors.Is(err, stored.ErrNotFound), errors.Is(err, stored.ErrBroken):
		return responseNotFound(r)
	case errors.Is(err, stored.ErrTooLong):
		return tooLong("response_id", "list the items of an earlier response")
	case err != nil:
		return cause.Of(r.Context(), err)
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
	return e.sendItems(w, r, x, items[:min(limit, len(items))], len(items) > limit)
}

// sendItems answers with a list of items, and reads one after another.
func (e *Endpoint) sendItems(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, items []stored.Head,
	more bool) error {
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
		pieces = append(pieces, piece{stored: e.storedItem(x, item)})
	}
	return e.send(w, r, x, append(pieces, piece{text: string(after)}))
}

func (e *Endpoint) storedItem(x *proxy.Exchange, item stored.Head) *storedBytes {
	return &storedBytes{
		size: item.Size, held: x.Grant.Body.Another(),
		read: func(ctx context.Context, from, n int64) ([]byte, error) { return e.Store.BodyPart(ctx, item, from, n) },
	}
}

// includes are the values of the parameter include, in each form in which the SDKs repeat it.
func includes(query url.Values) []string {
	return slices.Concat(query["include"], query["include[]"])
}

// listing reads the parameters of a list. Source: OpenAI API reference, "List input items".
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
