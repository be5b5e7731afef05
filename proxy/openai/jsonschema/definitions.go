package jsonschema

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// want notes a definition that is in use.
func (m *strictMaker) want(n schemaMembers) bool {
	ref := n.text("$ref")
	if ref == "#" {
		return true
	}
	if _, known := m.defs[ref]; !known {
		if definitionOf(ref) == "" {
			return false
		}
		m.defs[ref] = nil
		m.wanted, m.order = append(m.wanted, ref), append(m.order, ref)
	}
	return true
}

// withDefinitions adds the definitions in use.
func (m *strictMaker) withDefinitions(root schemaMembers) schemaMembers {
	for _, place := range []string{"$defs", "definitions"} {
		var list schemaMembers
		for _, ref := range m.order {
			if strings.HasPrefix(ref, "#/"+place+"/") {
				list = append(list, schemaMember{definitionOf(ref), m.defs[ref]})
				m.text += len(definitionOf(ref))
			}
		}
		if list != nil {
			root.set(place, list.encode())
		}
	}
	return root
}

// definitionOf is the name in a reference to a definition; empty for other references.
func definitionOf(ref string) string {
	for _, place := range []string{"#/$defs/", "#/definitions/"} {
		if name, ok := strings.CutPrefix(ref, place); ok && !strings.ContainsAny(name, "/%") {
			return jsontext.Pointer("/" + name).LastToken()
		}
	}
	return ""
}

// definitionsOf are the schemas that a reference may name.
func definitionsOf(schema json.RawMessage) map[string]json.RawMessage {
	found := map[string]json.RawMessage{"#": schema}
	root, _ := readMembers(schema)
	for _, place := range []string{"$defs", "definitions"} {
		defs, _ := readMembers(root.raw(place))
		for _, d := range defs {
			found["#/"+place+string(jsontext.Pointer("").AppendToken(d.name))] = d.value
		}
	}
	return found
}
