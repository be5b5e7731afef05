package proxy

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai"
)

// Alias is an alias of a model; see modelname.Alias.
type Alias = modelname.Alias

// aliases are the names that the operator has given to models. A model of a
// worker is never hidden behind an alias of the same name.
type aliases struct {
	names  map[string]Alias
	known  func(model string) bool
	logger *slog.Logger

	mu   sync.Mutex
	told map[string]bool // aliases that have no effect, and of which the log has told
}

// find returns the alias of that name, unless a worker has such a model.
func (a *aliases) find(name string) (Alias, bool) {
	alias, ok := a.names[name]
	return alias, ok && !a.known(name)
}

// resolve returns what to run for a model name of a client, who has asked for the
// effort in that field.
func (a *aliases) resolve(name, effort, field string) (Alias, error) {
	alias, ok := a.find(name)
	switch {
	case !ok:
		return Alias{Model: name, Effort: effort}, nil
	case alias.Effort == "":
		alias.Effort = effort
	case effort != "" && effort != alias.Effort:
		return alias, openai.Invalid("invalid_value", field,
			fmt.Sprintf("the model %s comes with %s %q; leave %[2]s out, or ask for another model", name, field, alias.Effort))
	}
	return alias, nil
}

// listed are the aliases of models, in the order of their names.
func (a *aliases) listed(models []string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a.names)) {
		if alias, ok := a.find(name); ok && slices.Contains(models, alias.Model) {
			names = append(names, name)
		}
	}
	return names
}

// CheckAliases warns of aliases that have no effect because a worker has a model
// of that name, of each once. It is to be called when a worker has become ready.
func (s *Server) CheckAliases() {
	a := s.aliases
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.names)) {
		if a.known(name) && !a.told[name] {
			a.told[name] = true
			a.logger.Warn("an alias has no effect, as a worker has a model of that name; rename it in [models.aliases]", "alias", name)
		}
	}
}
