package openaitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// refusalOf is the error of a value of a parameter that has no effect; nil: the value is accepted.
func refusalOf(name, value string) *openai.Error {
	_, err := jsonbody.Reading{}.CheckParams(jsonbody.Params{name: {Rule: jsonbody.Ignored}},
		map[string]jsonbody.ValuePrefix{name: jsonbody.ValuePrefix(value)})
	var refused *openai.Error
	_ = errors.As(err, &refused)
	return refused
}

// values describes the values of a parameter that has no effect; empty: it has any.
func values(name string) string {
	for _, value := range []string{"true", "[]"} {
		if refused := refusalOf(name, value); refused != nil {
			words, _, _ := strings.Cut(strings.TrimPrefix(refused.Message, name+" must be "), ", not a JSON ")
			return words
		}
	}
	return ""
}

// Valid is a value of the parameter that has the right type and is not empty.
func Valid(name string) string {
	for _, value := range []string{`"x"`, `1`, `16`, `true`, `{"a":"b"}`, `[{"a":"b"}]`} {
		if refusalOf(name, value) == nil {
			return value
		}
	}
	return `"24h"` // of prompt_cache_retention
}

// ParamTable is a table of parameters for the documentation: by rule, then by name.
func ParamTable(table jsonbody.Params) string {
	var b strings.Builder
	b.WriteString("| parameter | rule | |\n|---|---|---|\n")
	for i, word := range []string{jsonbody.Honoured: "honoured", jsonbody.Ignored: "ignored",
		jsonbody.Refused: "refused"} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			p := table[name]
			if int(p.Rule) != i {
				continue
			}
			why := p.Why
			if words := values(name); p.Rule == jsonbody.Ignored && words != "" {
				why += "; " + words
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, word, why)
		}
	}
	return b.String()
}

// FollowTable sends each parameter of a table, with the value of an honoured one, to decode, which returns the ignored
// ones. required is the required member beside the model.
func FollowTable(t *testing.T, table jsonbody.Params, required string, values map[string]string,
	decode func(body []byte) (ignored []string, err error)) {
	t.Helper()
	for name, p := range table {
		value, known := values[name]
		if !known {
			require.NotEqual(t, jsonbody.Honoured, p.Rule, "%s: give this test a value", name)
			value = Valid(name)
		}
		parameters := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(`{"model":"m",`+required+`}`), &parameters))
		parameters[name] = json.RawMessage(value)
		body, err := json.Marshal(parameters)
		require.NoError(t, err)
		ignored, err := decode(body)
		if p.Rule == jsonbody.Refused {
			var refusal *openai.Error
			require.ErrorAs(t, err, &refusal, name)
			assert.Equal(t, "unsupported_parameter", refusal.Code, name)
			assert.Equal(t, name, refusal.Param)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, p.Rule == jsonbody.Ignored, slices.Contains(ignored, name), name)
	}
}

// IgnoredHaveTypes fails unless every ignored parameter has a type.
func IgnoredHaveTypes(t *testing.T, table jsonbody.Params) {
	t.Helper()
	for name, p := range table {
		assert.True(t, p.Rule != jsonbody.Ignored || values(name) != "", "%s: give it a type in jsonbody", name)
	}
}

// HonouredAreDecoded fails unless exactly the honoured parameters of a table are decoded, and of the others only the
// names are read. ours are the names in raw that no client of the API sends.
func HonouredAreDecoded(t *testing.T, table jsonbody.Params, raw reflect.Type, ours ...string) {
	t.Helper()
	var named, decoded []string
	for name, p := range table {
		if p.Rule == jsonbody.Honoured {
			named = append(named, name)
		}
	}
	for i := range raw.NumField() {
		if name := raw.Field(i).Tag.Get("json"); name != ",embed" && !slices.Contains(ours, name) {
			decoded = append(decoded, name)
		}
	}
	assert.ElementsMatch(t, named, decoded)
}
