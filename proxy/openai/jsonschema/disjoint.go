package jsonschema

import (
	"encoding/json"
	"slices"
	"strings"
)

// disjoint reports whether no value is under two of the schemas: they have different types, or objects differ in a
// constant.
func (m *strictMaker) disjoint(schemas []json.RawMessage) bool {
	types := map[string]bool{}
	var nodes []schemaMembers
	for _, raw := range schemas {
		n, _ := readMembers(raw)
		if target, found := m.given[n.text("$ref")]; found {
			if m.size += len(target); m.size > maxStrictWork { // the same one may be named many times
				return false
			}
			n, _ = readMembers(target)
		}
		nodes = append(nodes, n)
		types[strings.Replace(n.text("type"), "integer", "number", 1)] = true
	}
	switch {
	case len(nodes) == 0:
		return false
	case len(types) == len(nodes) && !types[""]:
		return true
	}
	first, _ := readMembers(nodes[0].raw("properties"))
	first = first[:min(len(first), maxDiscriminators)]
	return slices.ContainsFunc(first, func(p schemaMember) bool { return differ(nodes, p.name) })
}

// differ reports whether the property has another constant in each of the objects.
func differ(objects []schemaMembers, name string) bool {
	seen := map[string]bool{}
	for _, o := range objects {
		properties, _ := readMembers(o.raw("properties"))
		property, _ := readMembers(properties.raw(name))
		constant := property.raw("const")
		if values, _ := property.list("enum"); constant == nil && len(values) == 1 {
			constant = values[0]
		}
		if constant == nil || seen[string(Compact(constant))] {
			return false
		}
		seen[string(Compact(constant))] = true
	}
	return true
}
