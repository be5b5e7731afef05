// Package schema finds the requests of codex that only read, in the schema that codex generates of its own protocol.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// Requests has the names of the parameters of each request that only reads.
type Requests map[string][]string

// Bounds of one schema: codex 0.171 has 189 requests.
const (
	maxRequests = 4096
	maxNodes    = 20000 // that the judgement of one result visits
	maxDepth    = 8     // of the type of a parameter
)

var (
	// reading are the last words of requests that read; "status", "info" and the like also end requests that do work.
	reading = []string{"list", "read", "get"}
	// plain are the names of parameters that choose among things to read. Codex names flags with an effect otherwise:
	// refreshToken of account/read, forceReload of skills/list.
	plain = lazyregexp.New(`^(cursor|limit|offset|order|sortKey|sortDirection|archived|searchTerm|query|cwds?|` +
		`(include|exclude)[A-Z]\w*|id|\w+(Id|Ids|Kind|Kinds|Type))$`)
	// effect are words of a description that speaks of more than reading.
	effect = lazyregexp.New(`(?i)\b(start|create|update|delete|remove|write|mark|set|clear|reset|run|execute|install|` +
		`send|refresh|reload|consume|acknowledge|import|grant|revoke|switch|cancel|stop|sync)(s|es)?\b`)
	// secret are parts of the names of things that no client may read, in lower case.
	secret = []string{"password", "secret", "credential", "cookie", "apikey", "privatekey", "accesstoken",
		"refreshtoken", "idtoken", "authtoken", "bearer", "authorization"}
)

// node is a part of a JSON schema. The schema "true" is an empty node.
type node struct {
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	Type        words           `json:"type"`
	Enum        []any           `json:"enum"`
	Properties  map[string]node `json:"properties"`
	Items       *node           `json:"items"`
	AllOf       []node          `json:"allOf"`
	AnyOf       []node          `json:"anyOf"`
	OneOf       []node          `json:"oneOf"`
	More        *node           `json:"additionalProperties"`
}

func (n *node) UnmarshalJSON(b []byte) error {
	if string(b) == "true" || string(b) == "false" {
		return nil
	}
	type fields node
	return json.Unmarshal(b, (*fields)(n))
}

// words is one text, or a list of them.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*w = words{""}
		return json.Unmarshal(b, &(*w)[0])
	}
	return json.Unmarshal(b, (*[]string)(w))
}

func (n *node) parts() []node { return slices.Concat(n.AllOf, n.AnyOf, n.OneOf) }

// file has the types of codex's file of all types, by their names there; "v2" has the types of its second protocol.
type file struct{ types map[string]json.RawMessage }

const (
	prefix = "#/definitions/"
	second = "v2/"
)

// parse finds the requests that only read. A request that the schema does not describe as such does not pass.
func parse(b []byte) (Requests, error) {
	var root struct{ Definitions map[string]json.RawMessage }
	if err := json.Unmarshal(b, &root); err != nil {
		return nil, fmt.Errorf("it does not parse: %w", err)
	}
	f := file{types: root.Definitions}
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(root.Definitions["v2"], &inner); err != nil {
		return nil, fmt.Errorf("its types do not parse: %w", err)
	}
	for name, t := range inner {
		f.types[second+name] = t
	}
	all := f.named("ClientRequest").OneOf
	if len(all) == 0 || len(all) > maxRequests {
		return nil, fmt.Errorf("it has %d requests", len(all))
	}
	found, seen := Requests{}, map[string]bool{}
	for _, one := range all {
		method := one.method()
		if seen[method] {
			return nil, fmt.Errorf("it has the request %q twice", method)
		}
		seen[method] = true
		if parameters, ok := f.reads(method, one); ok {
			found[method] = parameters
		}
	}
	return found, nil
}

// method is the name of a request.
func (n *node) method() string {
	if names := n.Properties["method"].Enum; len(names) == 1 {
		name, _ := names[0].(string)
		return name
	}
	return ""
}

// named is the type of a name, or an empty node.
func (f file) named(name string) (n node) {
	if json.Unmarshal(f.types[name], &n) != nil {
		return node{}
	}
	return n
}

func (f file) resolved(n node) node {
	for range maxDepth {
		if n.Ref == "" {
			return n
		}
		n = f.named(strings.TrimPrefix(n.Ref, prefix))
	}
	return node{}
}

// reads judges a request by its name, its description, its parameters and its result.
func (f file) reads(method string, request node) (parameters []string, ok bool) {
	verb := method[strings.LastIndex(method, "/")+1:]
	if verb == method || !slices.Contains(reading, verb) {
		return nil, false
	}
	of, name := f.parameters(request.Properties["params"])
	if name == "" {
		name = typeName(method)
	}
	result := f.named(second + name + "Response")
	if effect.MatchString(request.Description + "\n" + of.Description + "\n" + result.Description) {
		return nil, false
	}
	if len(result.Properties) == 0 || verb == "list" && !f.isList(result.Properties["data"]) || f.hasSecret(result) {
		return nil, false
	}
	for parameter, t := range of.Properties {
		if !plain.MatchString(parameter) || !f.isPlain(t, maxDepth) {
			return nil, false
		}
		parameters = append(parameters, parameter)
	}
	slices.Sort(parameters)
	return parameters, of.More == nil && len(of.parts()) == 0
}

// parameters is the type of the parameters, with its name less "Params"; both are empty of a request without any.
func (f file) parameters(n node) (of node, name string) {
	for _, t := range append(n.AnyOf, n) {
		if t.Ref != "" {
			base, _ := strings.CutSuffix(strings.TrimPrefix(t.Ref, prefix+second), "Params")
			return f.resolved(t), base
		}
	}
	return n, ""
}

// typeName is how codex names the types of a request without parameters: ConfigRequirementsRead of
// configRequirements/read.
func typeName(method string) (name string) {
	for part := range strings.SplitSeq(method, "/") {
		if part != "" {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return name
}

func (f file) isList(n node) bool { return slices.Contains(f.resolved(n).Type, "array") }

// isPlain accepts texts, numbers, truth values, and lists of them.
func (f file) isPlain(n node, depth int) bool {
	n = f.resolved(n)
	if depth == 0 || n.Properties != nil || n.More != nil || slices.Contains(n.Type, "object") ||
		len(n.Type) == 0 && len(n.parts()) == 0 {
		return false
	}
	return (n.Items == nil || f.isPlain(*n.Items, depth-1)) &&
		!slices.ContainsFunc(n.parts(), func(p node) bool { return !f.isPlain(p, depth-1) })
}

// hasSecret reports whether a member of a type, or of one below it, has the name of a secret, or whether the type is
// too large for a search.
func (f file) hasSecret(n node) bool {
	seen, left := map[string]bool{}, maxNodes
	var visit func(n node) bool
	visit = func(n node) bool {
		if left--; left < 0 {
			return true
		}
		if n.Ref != "" {
			if seen[n.Ref] {
				return false
			}
			seen[n.Ref] = true
			return visit(f.named(strings.TrimPrefix(n.Ref, prefix)))
		}
		for name, t := range n.Properties {
			if isSecret(name) || visit(t) {
				return true
			}
		}
		for _, t := range []*node{n.Items, n.More} {
			if t != nil && visit(*t) {
				return true
			}
		}
		return slices.ContainsFunc(n.parts(), visit)
	}
	return visit(n)
}

func isSecret(name string) bool {
	name = strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	return slices.ContainsFunc(secret, func(part string) bool { return strings.Contains(name, part) })
}
