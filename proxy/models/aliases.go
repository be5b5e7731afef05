package models

import (
	"maps"
	"slices"

	"codex-proxy/internal/wildcard"
	"codex-proxy/proxy/modelname"
)

// aliases are the further names of models: names as clients write them, and patterns.
type aliases struct {
	all      map[string]modelname.Alias
	names    []string // that are no patterns, sorted
	patterns []string // the most precise first
}

func newAliases(all map[string]modelname.Alias) aliases {
	a := aliases{all: all}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if wildcard.Is(name) {
			a.patterns = append(a.patterns, name)
		} else {
			a.names = append(a.names, name)
		}
	}
	slices.SortFunc(a.patterns, wildcard.Compare)
	return a
}

// of returns the alias for the name of a request, and its own name: the same, or the most precise pattern that matches;
// empty: no alias.
func (a aliases) of(name string) (modelname.Alias, string) {
	if alias, ok := a.all[name]; ok && !wildcard.Is(name) {
		return alias, name
	}
	for _, pattern := range a.patterns {
		if wildcard.Match(pattern, name) {
			return a.all[pattern], pattern
		}
	}
	return modelname.Alias{}, ""
}
