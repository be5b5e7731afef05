package jsonbody

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"codex-proxy/proxy/openai"
)

// rule is the treatment of a request parameter.
type rule int

// The rules of parameters.
const (
	Honoured rule = iota // as in the OpenAI reference
	Ignored              // accepted without effect; named in X-Codex-Ignored-Params
	Refused              // 400, because the answer would be wrong without notice
)

// CheckParams applies a table to the parameters that are not honoured: it refuses the refused ones and lists the
// ignored ones. A null, false or empty value counts as unset.
func (r Reading) CheckParams(table Params, fields map[string]ValuePrefix) (ignoredParams []string, err error) {
	var unknown UnknownParams
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p, known := table[name]
		if !known && !r.IgnoreUnknown {
			return nil, openai.Invalid("unknown_parameter", openai.Clip(name), fmt.Sprintf("unknown parameter %q",
				openai.Clip(name)))
		}
		if p.Rule == Ignored {
			if err := checkValue(name, json.RawMessage(fields[name])); err != nil {
				return nil, err
			}
		}
		switch {
		case isEmptyValue(json.RawMessage(fields[name])):
		case !known:
			unknown.Add(name)
		case name == "top_logprobs" && fields[name] == "0":
		case p.Rule == Refused:
			return nil, openai.Unsupported(name, fmt.Sprintf("%s is not supported: %s; leave it out", name, p.Why))
		case p.Rule == Ignored:
			ignoredParams = append(ignoredParams, name)
		}
	}
	return append(ignoredParams, unknown.List()...), nil
}

// Params is a table of parameters.
type Params = map[string]struct {
	Rule rule
	Why  string
}
