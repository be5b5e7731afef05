package jsonschema

import (
	"encoding/json"
	"slices"
)

// Limits of the strict subset. Source: OpenAI's guide "Structured outputs".
const (
	maxStrictLevels     = 10
	maxStrictProperties = 5000
	maxStrictEnum       = 1000
	maxStrictText       = 120_000
	maxShortEnum        = 250    // values of an enum without a limit on its text
	maxLongEnumText     = 15_000 // bytes of a longer one
)

const (
	// maxStrictWork bounds the bytes that are read, once on each level: a definition may be copied to each of its uses.
	maxStrictWork = 512 << 10
	// maxFiniteRounds bounds the length of a chain of definitions that refer to each other, in the worst order.
	maxFiniteRounds = 20
	// maxKeywords bounds the members of a schema that is merged with another one.
	maxKeywords = 200
	// maxDiscriminators bounds the properties that are tried as the discriminator of alternatives.
	maxDiscriminators = 20
)

// Keywords by their place in the strict form. All others are dropped: they do not constrain the value.
var (
	strictKept = []string{
		"title", "description", "type", "enum", "const", "$ref", "anyOf", "properties", "required",
		"additionalProperties", "items", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum", "multipleOf",
	}
	// strictLost are constraints that the subset lacks.
	strictLost = []string{
		"minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "contains", "minContains",
		"maxContains", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
	}
	// strictNever describe values with open names or positions, for which the subset has nothing.
	strictNever = []string{
		"patternProperties", "propertyNames", "unevaluatedProperties", "prefixItems", "additionalItems",
		"unevaluatedItems", "$dynamicRef", "$recursiveRef",
	}
	strictFormats = []string{
		"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
	}
)

// strictForm makes a schema in the strict subset from one that may be outside. Every value under the form is valid
// under the schema, except for constraints that the subset lacks: exact reports that the schema has no such constraint.
// All declared properties of an object are required, and there are no others. ok is false for schemas without such a
// form, for example of objects with arbitrary names.
func strictForm(schema json.RawMessage) (form json.RawMessage, exact, ok bool) {
	if len(schema) > maxStrictWork {
		return nil, false, false
	}
	m := strictMaker{given: definitionsOf(schema), exact: true, atRoot: true, defs: map[string]json.RawMessage{}}
	root, ok := m.node(schema, 1)
	if !ok || root.text("type") != "object" {
		return nil, false, false
	}
	for len(m.wanted) > 0 {
		name := m.wanted[0]
		m.wanted = m.wanted[1:]
		target, found := m.given[name]
		if !found {
			return nil, false, false
		}
		m.open = []string{name}
		def, ok := m.node(target, 1)
		if !ok || m.size > maxStrictWork {
			return nil, false, false
		}
		m.defs[name] = def.encode()
	}
	form = m.withDefinitions(root).encode()
	return form, m.exact, m.withinLimits() && m.isFinite(form)
}

// strictMaker makes one strict form.
type strictMaker struct {
	given  map[string]json.RawMessage // schemas by reference
	exact  bool                       // no constraint is lost
	atRoot bool                       // the root is next; it must not be a mere reference
	wanted []string
	order  []string                   // of the definitions
	defs   map[string]json.RawMessage // by reference; nil while wanted

	open []string // references to the schemas that are being copied or made strict

	depth int // of the node in hand

	size, levels, properties, enum, text int
}

func (m *strictMaker) withinLimits() bool {
	return m.levels <= maxStrictLevels && m.properties <= maxStrictProperties && m.enum <= maxStrictEnum &&
		m.text <= maxStrictText && m.size <= maxStrictWork
}

// node is the strict form of one schema, level objects deep.
func (m *strictMaker) node(raw json.RawMessage, level int) (n schemaMembers, ok bool) {
	opened := len(m.open)
	m.depth++
	defer func() { m.open, m.depth = m.open[:opened], m.depth-1 }()
	m.size += len(raw)
	m.levels = max(m.levels, level)
	n, ok = readMembers(raw)
	if !ok || m.depth > maxSchemaDepth || !m.withinLimits() {
		return nil, false
	}
	if n, ok = m.flatten(n); !ok || !m.prune(&n) {
		return nil, false
	}
	switch {
	case n.has("$ref"):
		return n, m.want(n)
	case n.has("anyOf"):
		return n, m.union(n, level)
	}
	ok = n.addType() && m.object(&n, level) && m.array(n, level) && m.count(n)
	return n, ok
}

// flatten replaces allOf of one schema, oneOf, and a $ref with siblings, which the subset lacks.
func (m *strictMaker) flatten(n schemaMembers) (schemaMembers, bool) {
	inline := m.atRoot
	m.atRoot = false
	for range maxStrictLevels {
		n.drop("$defs", "definitions", "$schema", "$id", "$comment", "default", "examples")
		inner, ok := m.takeInner(&n, inline)
		switch {
		case !ok:
			return n, false
		case inner == nil:
			ok = m.uniteOne(&n)
			return n, ok
		}
		m.size += len(inner)
		if more, ok := readMembers(inner); !ok || !n.merge(more) || m.size > maxStrictWork {
			return n, false
		}
	}
	return n, false
}

// takeInner removes a schema that holds in addition to the others of n, and returns it; nil if n has no such schema.
// inline is for a reference without siblings.
func (m *strictMaker) takeInner(n *schemaMembers, inline bool) (inner json.RawMessage, ok bool) {
	if n.has("allOf") {
		all, _ := n.list("allOf")
		if len(all) != 1 {
			return nil, false
		}
		n.drop("allOf")
		return all[0], true
	}
	if !n.has("$ref") || !inline && !n.besides("$ref") {
		return nil, true
	}
	ref := n.text("$ref")
	if slices.Contains(m.open, ref) { // copied, it would contain itself
		n.drop("title", "description")
		return nil, !n.besides("$ref")
	}
	n.drop("$ref")
	m.open = append(m.open, ref)
	inner, ok = m.given[ref]
	return inner, ok
}

// uniteOne replaces oneOf by anyOf, which accepts more if two alternatives accept the same value.
func (m *strictMaker) uniteOne(n *schemaMembers) bool {
	if !n.has("oneOf") {
		return true
	}
	alternatives, ok := n.list("oneOf")
	if !ok || n.has("anyOf") {
		return false
	}
	m.exact = m.exact && m.disjoint(alternatives)
	for i := range *n {
		if (*n)[i].name == "oneOf" {
			(*n)[i].name = "anyOf"
		}
	}
	return true
}
