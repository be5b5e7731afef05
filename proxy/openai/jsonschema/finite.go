package jsonschema

import (
	"bytes"
	"encoding/json"
	"slices"
)

// isFinite reports whether a value exists under the form: none does if objects must contain themselves.
func (m *strictMaker) isFinite(form json.RawMessage) bool {
	finite := map[string]bool{}
	for range maxFiniteRounds {
		before := len(finite)
		for _, ref := range slices.Backward(m.order) { // the last ones are used by those before
			if !finite[ref] && isFinite(m.defs[ref], finite) {
				finite[ref] = true
			}
		}
		if isFinite(form, finite) {
			return true
		}
		if len(finite) == before {
			return false
		}
	}
	return false
}

// isFinite reports whether a node has a value, of the references only those in finite.
func isFinite(raw json.RawMessage, finite map[string]bool) bool {
	n, _ := readMembers(raw)
	unfinite := func(raw json.RawMessage) bool { return !isFinite(raw, finite) }
	if n.has("$ref") {
		return finite[n.text("$ref")]
	}
	if alternatives, _ := n.list("anyOf"); alternatives != nil {
		return slices.ContainsFunc(alternatives, func(raw json.RawMessage) bool { return isFinite(raw, finite) })
	}
	kinds, _ := n.list("type")
	if n.has("enum") || n.has("const") || len(kinds) > 1 {
		return true
	}
	properties, _ := readMembers(n.raw("properties"))
	atLeast := string(bytes.TrimSpace(n.raw("minItems")))
	return !slices.ContainsFunc(properties, func(p schemaMember) bool { return unfinite(p.value) }) &&
		(atLeast == "" || atLeast == "0" || !unfinite(n.raw("items")))
}
