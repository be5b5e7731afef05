package jsonschema

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// members are the members of a JSON object in their order, which the model follows when it writes an object.
type schemaMembers []schemaMember

type schemaMember struct {
	name  string
	value json.RawMessage
}

// readMembers reports whether raw is an object.
func readMembers(raw json.RawMessage) (list schemaMembers, ok bool) {
	from := jsontext.NewDecoder(bytes.NewReader(raw), jsonbody.AllowDuplicates)
	if token, err := from.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, false
	}
	for from.PeekKind() == '"' {
		name, _ := from.ReadToken()
		text := name.String()
		value, err := from.ReadValue()
		if err != nil {
			return nil, false
		}
		list = append(list, schemaMember{text, bytes.Clone(value)})
	}
	return list, true
}

func (n schemaMembers) encode() json.RawMessage {
	b := []byte("{")
	for i, a := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, encodeText(a.name)...), ':'), a.value...)
	}
	return append(b, '}')
}

func (n schemaMembers) index(name string) int {
	return slices.IndexFunc(n, func(a schemaMember) bool { return a.name == name })
}

func (n schemaMembers) has(name string) bool { return n.index(name) >= 0 }

// raw is nil without the member.
func (n schemaMembers) raw(name string) json.RawMessage {
	if i := n.index(name); i >= 0 {
		return n[i].value
	}
	return nil
}

// text is empty if the member is no string.
func (n schemaMembers) text(name string) (s string) {
	_ = jsonbody.Unmarshal(n.raw(name), &s)
	return s
}

// list reports whether the member is a list.
func (n schemaMembers) list(name string) (list []json.RawMessage, ok bool) {
	raw := n.raw(name)
	return list, raw != nil && jsonbody.Unmarshal(raw, &list) == nil && list != nil
}

func (n schemaMembers) ofType(kind string) bool {
	kinds, _ := n.list("type")
	return n.text("type") == kind ||
		slices.ContainsFunc(kinds, func(raw json.RawMessage) bool { return sameText(raw, encodeText(kind)) })
}

func (n *schemaMembers) set(name string, value json.RawMessage) {
	if i := n.index(name); i >= 0 {
		(*n)[i].value = value
		return
	}
	*n = append(*n, schemaMember{name, value})
}

func (n *schemaMembers) drop(names ...string) {
	*n = slices.DeleteFunc(*n, func(a schemaMember) bool { return slices.Contains(names, a.name) })
}

// besides reports whether the schema has other keywords that count.
func (n schemaMembers) besides(names ...string) bool {
	return slices.ContainsFunc(n, func(a schemaMember) bool {
		return counts(a.name) && !slices.Contains(names, a.name)
	})
}

// counts reports whether a keyword may be in a strict form, or constrains the value.
func counts(keyword string) bool {
	return slices.Contains(strictKept, keyword) || slices.Contains(strictLost, keyword) ||
		slices.Contains(strictNever, keyword) || slices.Contains([]string{"oneOf", "allOf", "pattern", "format"},
		keyword)
}

// merge adds the members of another schema that also holds. It reports false if both have the same keyword with
// different values, or more keywords than a schema has, or one refuses all properties of the other:
// additionalProperties considers only the properties of its own schema.
func (n *schemaMembers) merge(other schemaMembers) bool {
	if len(*n)+len(other) > maxKeywords || n.refusesAll(other) || other.refusesAll(*n) {
		return false
	}
	for _, a := range other {
		there := n.raw(a.name)
		switch {
		case there == nil:
			*n = append(*n, a)
		case a.name == "title" || a.name == "description" || !counts(a.name):
		case !bytes.Equal(Compact(there), Compact(a.value)):
			return false
		}
	}
	return true
}

func (n schemaMembers) refusesAll(other schemaMembers) bool {
	return n.has("additionalProperties") && !n.has("properties") && other.has("properties")
}

// addType adds the type that the subset demands, if the other members imply it. It reports whether there is a type, and
// all of its names exist.
func (n *schemaMembers) addType() bool {
	if n.has("type") {
		var kind any
		return jsonbody.Unmarshal(n.raw("type"), &kind) == nil && checkType(kind) == nil
	}
	var kind string
	values, _ := n.list("enum")
	if constant := n.raw("const"); constant != nil {
		values = []json.RawMessage{constant}
	}
	for i, v := range values {
		this := jsonbody.Kinds[jsontext.Value(v).Kind()]
		if i > 0 && this != kind {
			return false
		}
		kind = this
	}
	switch {
	case kind == "" && n.has("properties"):
		kind = "object"
	case kind == "" && n.has("items"):
		kind = "array"
	}
	if kind == "" || kind == "object" && !n.has("properties") || kind == "array" && !n.has("items") {
		return false
	}
	*n = append(schemaMembers{{"type", encodeText(kind)}}, *n...)
	return true
}

func encodeText(s string) json.RawMessage {
	text, err := openai.Encode(s)
	if err != nil { // strings always encode
		panic(err)
	}
	return text
}

func encodeList(list []json.RawMessage) json.RawMessage {
	return slices.Concat([]byte("["), bytes.Join(rawBytes(list), []byte(",")), []byte("]"))
}

func rawBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, 0, len(list))
	for _, raw := range list {
		out = append(out, raw)
	}
	return out
}

// sameText reports whether two JSON strings are equal.
func sameText(a, b json.RawMessage) bool {
	var one, two string
	return jsonbody.Unmarshal(a, &one) == nil && jsonbody.Unmarshal(b, &two) == nil && one == two
}
