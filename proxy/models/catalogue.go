// Package models is the catalogue of models: what the workers list, the aliases that the
// operator gave to models, and the endpoint that lists them.
package models

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"codex-proxy/internal/nearest"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai"
)

// Workers is the source of the models.
type Workers interface {
	// Models returns the models that the ready ones of these workers list; none: of all.
	Models(names ...string) []string
	// Known reports whether one of these workers has ever listed a model; none: any.
	Known(model string, names ...string) bool
	// HasTier reports whether codex requests the service tier for the model.
	HasTier(model, tier string) bool
	// HasEffort reports whether codex lists the reasoning effort for the model.
	HasEffort(model, effort string) bool
}

// Catalogue resolves the names of models. A model of a worker is never hidden behind an
// alias of the same name. It is safe for concurrent use.
type Catalogue struct {
	workers Workers
	aliases map[string]modelname.Alias
	summary string
	logger  *slog.Logger

	mu       sync.Mutex
	reported map[string]bool // aliases without effect that the log names already
}

// New creates the catalogue of the workers' models and of aliases. summary is the
// reasoning.summary of all models whose alias has none of its own; empty: none.
func New(workers Workers, aliases map[string]modelname.Alias, summary string, logger *slog.Logger) *Catalogue {
	return &Catalogue{workers: workers, aliases: aliases, summary: summary, logger: logger,
		reported: map[string]bool{}}
}

// Resolve returns what to run for the name that a client gave. effort is the effort that
// it requested in the field of that name, or empty. The error is an *openai.Error.
func (c *Catalogue) Resolve(name, effort, field string) (modelname.Alias, error) {
	alias, ok := c.find(name)
	switch {
	case !ok:
		return modelname.Alias{Model: name, Effort: effort, Summary: c.summary}, nil
	case alias.Effort == "":
		alias.Effort = effort
	case effort != "" && effort != alias.Effort:
		return alias, openai.Invalid("invalid_value", field,
			fmt.Sprintf("the model %s comes with %s %q; leave %[2]s out, or ask for another model", name, field,
				alias.Effort))
	}
	alias.Summary = cmp.Or(alias.Summary, c.summary)
	return alias, nil
}

// HasTier reports whether the service tier has an effect with the model, which may not be an alias.
func (c *Catalogue) HasTier(model, tier string) bool { return c.workers.HasTier(model, tier) }

// HasEffort reports whether the model, which may not be an alias, is known to have the reasoning effort.
func (c *Catalogue) HasEffort(model, effort string) bool { return c.workers.HasEffort(model, effort) }

// find returns the alias of that name, unless a worker has such a model.
func (c *Catalogue) find(name string) (modelname.Alias, bool) {
	alias, ok := c.aliases[name]
	return alias, ok && !c.workers.Known(name)
}

// visible returns the models that a key with these limits may use on these accounts; none:
// all.
func (c *Catalogue) visible(limits auth.Limits, accounts []string) []string {
	models := c.workers.Models(accounts...)
	models = append(models, c.listed(models)...)
	return slices.DeleteFunc(models, func(id string) bool { return !limits.Allows(id) })
}

// listed returns the aliases of models, in the order of their names.
func (c *Catalogue) listed(models []string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.aliases)) {
		if alias, ok := c.find(name); ok && slices.Contains(models, alias.Model) {
			names = append(names, name)
		}
	}
	return names
}

// NotFound is the answer for a model that does not exist, or not for this key or on these
// accounts; none: all.
func (c *Catalogue) NotFound(limits auth.Limits, model string, accounts ...string) *openai.Error {
	hint := "GET /v1/models lists what there is"
	if near := nearest.To(model, c.visible(limits, accounts), 3); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
	}
	return openai.UnknownModel(model, "no ready worker has it, or this key may not use it; "+hint)
}

// CheckAliases warns, once for each, of aliases without effect because a worker has a
// model of that name. It is to be called when a worker has become ready.
func (c *Catalogue) CheckAliases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.aliases)) {
		if c.workers.Known(name) && !c.reported[name] {
			c.reported[name] = true
			c.logger.Warn("an alias has no effect, as a worker has a model of that name; rename it in [models.aliases]",
				"alias", name)
		}
	}
}
