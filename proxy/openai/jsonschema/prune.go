package jsonschema

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai/jsonbody"
)

// strictNumbers are the keywords of the subset with numbers as values. Schemas before draft 6 have booleans in some.
var strictNumbers = []string{
	"minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
}

// prune drops all keywords outside the subset. It reports false if there is no form without one.
func (m *strictMaker) prune(n *schemaMembers) bool {
	if slices.ContainsFunc(*n, schemaMember.forbidsForm) {
		return false
	}
	m.exact = m.exact && !slices.ContainsFunc(*n, schemaMember.isLost)
	*n = slices.DeleteFunc(*n, func(a schemaMember) bool {
		kept := a.name == "format" || a.name == "pattern" || slices.Contains(strictKept, a.name)
		return !kept || a.isLost()
	})
	return true
}

func (a schemaMember) forbidsForm() bool {
	return slices.Contains(strictNever, a.name) && (a.name != "unevaluatedProperties" || string(a.value) != "false")
}

// isLost reports whether a constraint is outside the subset.
func (a schemaMember) isLost() bool {
	var text string
	switch {
	case a.name == "format":
		return jsonbody.Unmarshal(a.value, &text) != nil || !slices.Contains(strictFormats, text)
	case a.name == "pattern":
		return jsonbody.Unmarshal(a.value, &text) != nil || strings.Contains(text, "(?") // look-around
	case slices.Contains(strictNumbers, a.name):
		return jsontext.Value(a.value).Kind() != '0'
	}
	return slices.Contains(strictLost, a.name)
}
