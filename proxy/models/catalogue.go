// Package models is the catalogue of models: the models of the workers, the aliases that the operator gave to models,
// and the endpoint that lists them.
package models

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/parameter"
	"codex-proxy/workers"
)

// Workers is the source of the models.
type Workers interface {
	// Models returns the models that the ready ones of these workers list; none: of all.
	Models(names ...string) []string
	// Known reports whether one of these workers has ever listed a model; none: any.
	Known(model string, names ...string) bool
	// Abilities returns the abilities that codex lists for a model.
	Abilities(model string) workers.Abilities
}

// Catalogue resolves the names of models. A model of a worker is never hidden behind an
// alias of the same name, or behind a pattern. It is safe for concurrent use.
type Catalogue struct {
	workers Workers
	aliases aliases
	summary string
	logger  *slog.Logger

	mu       sync.Mutex
	reported map[string]bool // aliases without effect that the log names already
}

// New creates the catalogue of the workers' models and of aliases. summary is the reasoning.summary of all models
// without one in their alias; empty: none.
func New(workers Workers, aliases map[string]modelname.Alias, summary string, logger *slog.Logger) *Catalogue {
	return &Catalogue{workers: workers, aliases: newAliases(aliases), summary: summary, logger: logger,
		reported: map[string]bool{}}
}

// Choice is the model to run for a name.
type Choice struct {
	modelname.Alias
	// Counted is the name that usage counts: the one of the request, or the pattern that matches it. Clients can
	// make up any number of names that a pattern matches.
	Counted string
	// Abilities are of the model that runs.
	Abilities workers.Abilities
}

// Resolve returns the choice for a request. The error is an *openai.Error.
func (c *Catalogue) Resolve(asked parameter.Common) (Choice, error) {
	name, effort := *asked.Model, *asked.Effort
	has := c.workers.Abilities(name)
	alias, counted := c.aliases.of(name)
	switch {
	case has.Known || counted == "":
		alias, counted = modelname.Alias{Model: name}, name
	case effort != "" && alias.Effort != "" && effort != alias.Effort:
		return Choice{}, openai.Invalid("invalid_value", asked.EffortField,
			fmt.Sprintf("the model %s comes with %s %q; leave %[2]s out, or ask for another model", name,
				asked.EffortField, alias.Effort))
	default:
		has = c.workers.Abilities(alias.Model)
	}
	alias.Summary = cmp.Or(alias.Summary, c.summary)
	if alias.Effort = cmp.Or(alias.Effort, effort); alias.Effort == "" {
		alias.Effort = softEffort(asked, has.Efforts)
	}
	return Choice{alias, counted, has}, nil
}

// softEffort is the effort of a request that names none: no reasoning if it wants that and the model can, else its
// soft effort, or the highest below it that the model has. If the model's efforts are not known, it is the soft effort
// itself: the model endpoint knows them.
func softEffort(asked parameter.Common, has []appserver.Effort) string {
	if asked.NoReasoning && slices.Contains(has, appserver.Effort{Name: parameter.NoEffort}) {
		return parameter.NoEffort
	}
	efforts := parameter.Efforts()
	for at := slices.Index(efforts, asked.SoftEffort); at > 0; at-- {
		if slices.Contains(has, appserver.Effort{Name: efforts[at]}) {
			return efforts[at]
		}
	}
	return asked.SoftEffort
}

// find returns the alias for a name of a request, and its own name; both are empty if no alias matches, or if a worker
// has a model of that name.
func (c *Catalogue) find(name string) (modelname.Alias, string) {
	if c.workers.Known(name) {
		return modelname.Alias{}, ""
	}
	return c.aliases.of(name)
}

// visible returns the models that a key with these limits may use on these accounts; none:
// all.
func (c *Catalogue) visible(limits auth.Limits, accounts []string) []string {
	models := c.workers.Models(accounts...)
	models = append(models, c.listed(models)...)
	return slices.DeleteFunc(models, func(id string) bool { return !limits.Allows(id) })
}

// listed returns the aliases of models, in the order of their names. A pattern is the name
// of no model.
func (c *Catalogue) listed(models []string) []string {
	var names []string
	for _, name := range c.aliases.names {
		if !c.workers.Known(name) && slices.Contains(models, c.aliases.all[name].Model) {
			names = append(names, name)
		}
	}
	return names
}

// CheckAliases warns, once for each, of aliases without effect because a worker has a
// model of that name. It is to be called when a worker has become ready.
func (c *Catalogue) CheckAliases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.aliases.names {
		if c.workers.Known(name) && !c.reported[name] {
			c.reported[name] = true
			c.logger.Warn("an alias has no effect, as a worker has a model of that name; rename it in [models.aliases]",
				"alias", name)
		}
	}
}
