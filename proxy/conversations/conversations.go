// Package conversations serves OpenAI's Conversations API: conversations of items, which responses take as their
// history and add to. Package responses adds the items of responses.
package conversations

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/storedanswer"
)

// Endpoint serves conversations. All fields are required but Store. It is safe for concurrent use.
type Endpoint struct {
	Admission *admission.Controller
	Answers   *answer.Writer
	Stored    *storedanswer.Writer
	// Store keeps conversations; nil: none is kept.
	Store stored.Store
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	const all, one = "/v1/conversations", "/v1/conversations/{conversation}"
	const items, item = one + "/items", one + "/items/{item}"
	return []proxy.Route{
		{Method: http.MethodPost, Path: all, Access: proxy.Keyed, Handler: e.create},
		{Method: http.MethodGet, Path: one, Access: proxy.Keyed, Handler: traced(e.get)},
		{Method: http.MethodPost, Path: one, Access: proxy.Keyed, Handler: traced(e.update)},
		{Method: http.MethodDelete, Path: one, Access: proxy.Keyed, Handler: traced(e.delete)},
		{Method: http.MethodPost, Path: items, Access: proxy.Keyed, Handler: traced(e.addItems)},
		{Method: http.MethodGet, Path: items, Access: proxy.Keyed, Handler: traced(e.listItems)},
		{Method: http.MethodGet, Path: item, Access: proxy.Keyed, Handler: traced(e.getItem)},
		{Method: http.MethodDelete, Path: item, Access: proxy.Keyed, Handler: traced(e.deleteItem)},
	}
}

// traced names the conversation in the span of the request, if it is kept: any other id is content of the request.
func traced(handle proxy.Handler) proxy.Handler {
	return func(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
		err := handle(w, r, x)
		if err == nil {
			x.Conversation = id(r)
		}
		return err
	}
}

// create serves POST /v1/conversations.
func (e *Endpoint) create(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if e.Store == nil {
		return openai.Invalid("conversations_not_kept", "",
			"this server keeps no conversations (response_retention); send the whole conversation as input")
	}
	req, items, err := e.read(w, r, x, DecodeNew)
	if err != nil {
		return err
	}
	metadata, err := openai.Encode(req.Metadata)
	if err != nil {
		return err
	}
	c := stored.Conversation{
		ID: proxy.NewID("conv_"), Owner: x.Key.Name, Created: time.Now().Unix(), Metadata: metadata,
	}
	if err := e.Store.CreateConversation(r.Context(), c, items); err != nil {
		return e.explain(r, err)
	}
	x.Conversation = c.ID
	return e.send(w, c)
}

// read reads a body, and makes its items ready to be stored.
func (e *Endpoint) read(w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	decode admission.Decoder[*Request]) (*Request, []stored.Item, error) {
	req, err := admission.Body(e.Admission, w, r, x, decode)
	if err != nil {
		return nil, nil, err
	}
	images := req.Images()
	if err := e.Admission.Inline(r.Context(), x, images); err != nil {
		return nil, nil, err
	}
	for _, p := range images {
		if refusal := p.Image.TooLarge(); refusal != nil {
			return nil, nil, refusal
		}
	}
	admission.MarkIgnored(w, req.Ignored)
	items, err := toStore(req.Items)
	return req, items, err
}

// toStore gives every item an id, and returns the items as JSON.
func toStore(list []wire.InputItem) ([]stored.Item, error) {
	items := make([]stored.Item, 0, len(list))
	for _, in := range list {
		if in.ID == "" {
			in.ID = proxy.NewID(in.IDPrefix())
		}
		body, err := in.Encode()
		if err != nil {
			return nil, err
		}
		items = append(items, stored.Item{ID: in.ID, JSON: body})
	}
	return items, nil
}

// get serves GET /v1/conversations/{conversation}.
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	c, err := e.Store.Conversation(r.Context(), x.Key.Name, id(r))
	if err != nil {
		return e.explain(r, err)
	}
	return e.send(w, c)
}

// update serves POST /v1/conversations/{conversation}.
func (e *Endpoint) update(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	req, err := admission.Body(e.Admission, w, r, x, DecodeUpdate)
	if err != nil {
		return err
	}
	admission.MarkIgnored(w, req.Ignored)
	metadata, err := openai.Encode(req.Metadata)
	if err != nil {
		return err
	}
	c, err := e.Store.UpdateConversation(r.Context(), x.Key.Name, id(r), metadata)
	if err != nil {
		return e.explain(r, err)
	}
	return e.send(w, c)
}

// delete serves DELETE /v1/conversations/{conversation}. A response that is being made in it ends normally, and is in
// no conversation then.
func (e *Endpoint) delete(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if e.Store == nil {
		return e.explain(r, stored.ErrNotFound)
	}
	if err := e.Store.DeleteConversation(r.Context(), x.Key.Name, id(r)); err != nil {
		return e.explain(r, err)
	}
	return e.Answers.JSON(w, Deleted{ID: id(r), Object: "conversation.deleted", Deleted: true})
}

func id(r *http.Request) string { return r.PathValue("conversation") }

// send answers with a conversation.
func (e *Endpoint) send(w http.ResponseWriter, c stored.Conversation) error {
	return e.Answers.JSON(w, Conversation{
		ID: c.ID, Object: "conversation", CreatedAt: c.Created, Metadata: c.Metadata,
	})
}

// explain is the answer to an error of the store.
func (e *Endpoint) explain(r *http.Request, err error) error {
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return NotFound("conversation_id", id(r), e.Store != nil)
	case errors.Is(err, stored.ErrDuplicate):
		return Duplicate("items", strings.TrimPrefix(err.Error(), stored.ErrDuplicate.Error()+": "))
	case errors.Is(err, stored.ErrNoItem):
		return itemNotFound(r.PathValue("item"))
	case errors.Is(err, stored.ErrLocked):
		return Locked("conversation_id")
	case errors.Is(err, stored.ErrNoRoom):
		return openai.TooLarge("items",
			"the conversation is larger than all responses may be together (response_storage)")
	case errors.Is(err, stored.ErrTooLong):
		return openai.TooLarge("items", "the conversation would be larger than a worker takes; begin a new one")
	}
	return cause.Of(r.Context(), err)
}
