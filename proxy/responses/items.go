package responses

import (
	"errors"
	"net/http"
	"slices"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/storedanswer"
)

// inputItems serves GET /v1/responses/{id}/input_items.
func (l *lookups) inputItems(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	limit, descending, err := storedanswer.Listing(r.URL.Query())
	if err != nil {
		return err
	}
	encrypted, err := wire.IncludesEncrypted(storedanswer.Includes(r.URL.Query()))
	if err != nil {
		return err
	}
	if l.Store == nil {
		return responseNotFound(r)
	}
	items, err := l.Store.InputHeads(r.Context(), x.Key.Name, r.PathValue("id"), encrypted)
	switch {
	case errors.Is(err, stored.ErrNotFound) && l.isInFlight(r.Context(), x.Key.Name, r.PathValue("id")):
		return notFound(r, "it has not ended, and has no items until then")
	case errors.Is(err, stored.ErrNotFound):
		return responseNotFound(r)
	case errors.Is(err, stored.ErrBroken):
		return notFound(r, err.Error())
	case errors.Is(err, stored.ErrTooLong):
		return jobs.TooLong("response_id", "list the items of an earlier response")
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
	return deletedMeanwhile(r, l.stored().Items(w, r, x, l.Store, items[:min(limit, len(items))], len(items) > limit))
}
