package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"codex-proxy/internal/nearest"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/workers"
)

// modelOwner is owned_by of every model.
const modelOwner = "codex"

// models serves GET /v1/models: what the ready workers advertise, and the
// aliases of that, as far as the key may use it.
func (s *Server) models(w http.ResponseWriter, r *http.Request) error {
	if len(s.Pool.Models()) == 0 {
		return workers.ErrNotReady
	}
	return s.writeJSON(w, openai.Models(s.visible(exchangeOf(r).limits), modelOwner))
}

// model serves GET /v1/models/{id}. A model that is not listed can be asked for.
func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	id, limits := r.PathValue("id"), exchangeOf(r).limits
	alias, isAlias := s.aliases.find(id)
	switch {
	case limits.Allows(id) && (s.Pool.Known(id) || isAlias && s.Pool.Known(alias.Model)):
		return s.writeJSON(w, openai.Models([]string{id}, modelOwner).Data[0])
	case len(s.Pool.Models()) == 0:
		return workers.ErrNotReady
	default:
		return s.noModel(limits, id)
	}
}

// visible are the models that a key with these limits gets to see.
func (s *Server) visible(limits auth.Limits) []string {
	models := s.Pool.Models()
	models = append(models, s.aliases.listed(models)...)
	return slices.DeleteFunc(models, func(id string) bool { return !limits.Allows(id) })
}

// noModel is the answer for a model that does not exist, or not for this key.
func (s *Server) noModel(limits auth.Limits, model string) error {
	hint := "GET /v1/models lists what there is"
	if near := nearest.To(model, s.visible(limits), 3); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
	}
	return modelNotFound(fmt.Sprintf("no ready worker has the model %q, or this API key may not use it; %s", bounded(model), hint))
}
