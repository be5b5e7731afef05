package conversations

import (
	"context"
	"errors"
	"net/http"

	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/storedanswer"
)

// addItems serves POST /v1/conversations/{conversation}/items.
func (e *Endpoint) addItems(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	encrypted, err := wire.IncludesEncrypted(storedanswer.Includes(r.URL.Query()))
	if err != nil {
		return err
	}
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	_, items, err := e.read(w, r, x, DecodeItems)
	if err != nil {
		return err
	}
	if err := e.add(r, x, items); err != nil {
		return e.explain(r, err)
	}
	heads := make([]stored.Head, 0, len(items))
	for _, item := range items {
		head, err := e.Store.ConversationHead(r.Context(), x.Key.Name, id(r), item.ID, encrypted)
		if errors.Is(err, stored.ErrNoItem) { // it is deleted already
			continue
		}
		if err != nil {
			return e.explain(r, err)
		}
		heads = append(heads, head)
	}
	return e.explain(r, e.Stored.Items(w, r, x, e.Store, heads, false))
}

// add adds items to the conversation of the path, unless a response has it.
func (e *Endpoint) add(r *http.Request, x *proxy.Exchange, items []stored.Item) error {
	owner := x.Key.Name
	_, size, err := e.Store.ConversationAbout(r.Context(), owner, id(r)) // only its owner may learn that it is locked
	if err != nil {
		return err
	}
	for _, item := range items {
		size += int64(len(item.JSON))
	}
	if size > stored.MaxHistory {
		return stored.ErrTooLong
	}
	return e.Store.Change(r.Context(), id(r), func(ctx context.Context) error {
		return e.Store.Extend(ctx, owner, id(r), "", items)
	})
}

// listItems serves GET /v1/conversations/{conversation}/items.
func (e *Endpoint) listItems(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) (err error) {
	query := r.URL.Query()
	list := stored.Listing{After: query.Get("after")}
	if list.Limit, list.Descending, err = storedanswer.Listing(query); err != nil {
		return err
	}
	if list.Encrypted, err = wire.IncludesEncrypted(storedanswer.Includes(query)); err != nil {
		return err
	}
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	for range listTries {
		var items []stored.Head
		var more bool
		if items, more, err = e.Store.ConversationHeads(r.Context(), x.Key.Name, id(r), list); err == nil {
			err = e.Stored.Items(w, r, x, e.Store, items, more)
		}
		if !errors.Is(err, stored.ErrNotFound) { // else an item has been deleted since, or the conversation
			break
		}
	}
	if errors.Is(err, stored.ErrNoItem) {
		return openai.Invalid("invalid_value", "after", "after must be the id of one of the items")
	}
	return e.explain(r, err)
}

// listTries is how often items are listed that are deleted meanwhile.
const listTries = 10

// getItem serves GET /v1/conversations/{conversation}/items/{item}.
func (e *Endpoint) getItem(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	encrypted, err := wire.IncludesEncrypted(storedanswer.Includes(r.URL.Query()))
	if err != nil {
		return err
	}
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	head, err := e.Store.ConversationHead(r.Context(), x.Key.Name, id(r), r.PathValue("item"), encrypted)
	if err != nil {
		return e.explain(r, err)
	}
	err = e.Stored.Send(w, r, x, storedanswer.Piece{Stored: storedanswer.Item(x, e.Store, head)})
	if errors.Is(err, stored.ErrNotFound) {
		return itemNotFound(head.ID)
	}
	return err
}

// deleteItem serves DELETE /v1/conversations/{conversation}/items/{item}.
func (e *Endpoint) deleteItem(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	c, err := e.Store.Conversation(r.Context(), x.Key.Name, id(r))
	if err != nil {
		return e.explain(r, err)
	}
	if err := e.Store.Change(r.Context(), id(r), func(ctx context.Context) error {
		return e.Store.DeleteConversationItem(ctx, x.Key.Name, id(r), r.PathValue("item"))
	}); err != nil {
		return e.explain(r, err)
	}
	return e.send(w, c)
}
