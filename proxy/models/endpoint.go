package models

import (
	"net/http"

	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/openai"
	"codex-proxy/workers/dispatch"
)

// owner is owned_by of every model.
const owner = "codex"

// Endpoint serves the catalogue.
type Endpoint struct {
	Catalogue *Catalogue
	Answers   *answer.Writer
}

// Routes returns the routes of the endpoint.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{
		{Method: http.MethodGet, Path: "/v1/models", Access: proxy.Keyed, Handler: e.list},
		{Method: http.MethodGet, Path: "/v1/models/{id...}", Access: proxy.Keyed, Handler: e.get},
	}
}

// list serves GET /v1/models: the models that the ready workers list, and their aliases,
// as far as the key may use them, and their workers.
func (e *Endpoint) list(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if len(e.Catalogue.workers.Models(x.Accounts...)) == 0 {
		return dispatch.ErrNotReady
	}
	ids := e.Catalogue.visible(x.Key.Limits, x.Accounts)
	if x.Form != proxy.Anthropic {
		return e.Answers.JSON(w, openai.Models(ids, owner))
	}
	page, err := pageOf(ids, r.URL.Query())
	if err != nil {
		return err
	}
	return e.Answers.JSON(w, page)
}

// get serves GET /v1/models/{id}, also of a model that is not listed at the moment.
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	id, limits, c := r.PathValue("id"), x.Key.Limits, e.Catalogue
	alias, named := c.find(id)
	switch {
	case limits.Allows(id) && (c.workers.Known(id, x.Accounts...) ||
		named != "" && c.workers.Known(alias.Model, x.Accounts...)):
		return e.one(w, x, id)
	case len(c.workers.Models(x.Accounts...)) == 0:
		return dispatch.ErrNotReady
	default:
		return c.NotFound(x, id)
	}
}

// one answers with one model.
func (e *Endpoint) one(w http.ResponseWriter, x *proxy.Exchange, id string) error {
	if x.Form == proxy.Anthropic {
		return e.Answers.JSON(w, anthropic.ModelOf(id))
	}
	return e.Answers.JSON(w, openai.Models([]string{id}, owner).Data[0])
}
