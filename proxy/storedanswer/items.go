package storedanswer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// Items answers with a list of items, and reads one after another.
func (a *Writer) Items(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, from stored.Store,
	items []stored.Head, more bool) error {
	list := wire.ItemList{Object: "list", Data: []json.RawMessage{}, HasMore: more}
	if len(items) > 0 {
		list.FirstID, list.LastID = &items[0].ID, &items[len(items)-1].ID
	}
	frame, err := openai.Encode(list)
	if err != nil {
		return fmt.Errorf("cannot encode a list: %w", err)
	}
	before, after, _ := bytes.Cut(frame, []byte(`"data":[`))
	pieces := []Piece{{Text: string(before) + `"data":[`}}
	for i, item := range items {
		if i > 0 {
			pieces = append(pieces, Piece{Text: ","})
		}
		pieces = append(pieces, Piece{Stored: Item(x, from, item)})
	}
	return a.Send(w, r, x, append(pieces, Piece{Text: string(after)})...)
}

// Item is a stored item on its way to a client.
func Item(x *proxy.Exchange, from stored.Store, item stored.Head) *Bytes {
	return &Bytes{
		Size: item.Size, Held: x.Grant.Body.Another(),
		Read: func(ctx context.Context, at, n int64) ([]byte, error) { return from.BodyPart(ctx, item, at, n) },
	}
}

// Includes are the values of the parameter include, in each form in which the SDKs repeat it.
func Includes(query url.Values) []string {
	return slices.Concat(query["include"], query["include[]"])
}

// Listing reads the parameters of a list. Source: OpenAI API reference, "List input items".
func Listing(query url.Values) (limit int, descending bool, err error) {
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
