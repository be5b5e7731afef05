package jsonschema

import (
	"encoding/json"
	"slices"

	"codex-proxy/proxy/openai/jsonbody"
)

// union makes the alternatives strict. The subset has no further constraints next to them.
func (m *strictMaker) union(n schemaMembers, level int) bool {
	alternatives, ok := n.list("anyOf")
	beside := slices.ContainsFunc(n, func(a schemaMember) bool {
		return a.name != "anyOf" && a.name != "title" && a.name != "description"
	})
	if !ok || len(alternatives) == 0 || beside {
		return false
	}
	for i := range alternatives {
		strict, ok := m.node(alternatives[i], level)
		if !ok {
			return false
		}
		alternatives[i] = strict.encode()
	}
	n.set("anyOf", encodeList(alternatives))
	return true
}

// object makes all properties required, and forbids others. An object without properties is one with arbitrary names.
func (m *strictMaker) object(n *schemaMembers, level int) bool {
	if !n.ofType("object") {
		return !n.has("properties")
	}
	properties, ok := readMembers(n.raw("properties"))
	closed := string(n.raw("additionalProperties")) == "false"
	if n.has("properties") && !ok || n.has("additionalProperties") && !closed || len(properties) == 0 && !closed {
		return false
	}
	var required []json.RawMessage
	declared := make(map[string]bool, len(properties))
	for i, p := range properties {
		strict, ok := m.node(p.value, level+1)
		if !ok {
			return false
		}
		properties[i].value = strict.encode()
		required = append(required, encodeText(p.name))
		declared[p.name] = true
		m.text += len(p.name)
	}
	m.properties += len(properties)
	var names []string
	if n.has("required") && jsonbody.Unmarshal(n.raw("required"), &names) != nil ||
		slices.ContainsFunc(names, func(name string) bool { return !declared[name] }) {
		return false
	}
	n.set("properties", properties.encode())
	n.set("required", encodeList(required))
	n.set("additionalProperties", json.RawMessage("false"))
	return true
}

func (m *strictMaker) array(n schemaMembers, level int) bool {
	if !n.ofType("array") {
		return !n.has("items")
	}
	items, ok := m.node(n.raw("items"), level)
	n.set("items", items.encode())
	return ok
}

// count adds up the values that OpenAI limits.
func (m *strictMaker) count(n schemaMembers) bool {
	values, _ := n.list("enum")
	m.enum += len(values)
	m.text += len(n.raw("enum")) + len(n.raw("const"))
	if len(values) > maxShortEnum && len(n.raw("enum")) > maxLongEnumText {
		return false
	}
	return !n.has("enum") || len(values) > 0
}
