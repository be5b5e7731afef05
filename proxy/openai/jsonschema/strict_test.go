package jsonschema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/jsonbody"
)

// testdata/strictforms.json has schemas of clients with their strict forms; "=" is the schema itself.
func TestStrictForm(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "strictforms.json"))
	require.NoError(t, err)
	var cases []struct {
		Name         string
		Schema, Form json.RawMessage
		Lossy        bool
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			form, exact, ok := strictForm(tc.Schema)
			require.Equal(t, tc.Form != nil, ok, "%s", form)
			if !ok {
				return
			}
			if string(tc.Form) == `"="` {
				tc.Form = tc.Schema
			}
			assert.Equal(t, string(Compact(tc.Form)), string(Compact(form)))
			assert.Equal(t, !tc.Lossy, exact)
			again, exact, ok := strictForm(form)
			assert.True(t, ok && exact)
			assert.Equal(t, string(form), string(again), "a strict form is its own")
		})
	}
}

// schemaOf makes a schema like those of clients.
func schemaOf(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{`{"type":"string"}`, `{"type":"integer","minimum":2}`, `{"type":"boolean"}`, `{"type":"null"}`,
			`{"type":["string","null"]}`, `{"enum":["x","y"]}`, `{"const":7}`, `{"$ref":"#/$defs/A"}`,
			`{"$ref":"#/$defs/B","description":"d"}`, `{"type":"string","format":"uuid"}`, `{}`,
			`{"type":"object","additionalProperties":{"type":"string"}}`, `{"$ref":"#","title":"t"}`,
			`{"$ref":"#/$defs/A","additionalProperties":false}`, `{"$ref":"#/$defs/B","required":["p0"]}`}[r.IntN(15)]
	}
	inner := func() string { return schemaOf(r, r.IntN(depth)) }
	switch r.IntN(6) {
	case 0:
		return `{"type":"array","items":` + inner() + `,"minItems":` + fmt.Sprint(r.IntN(2)) + `}`
	case 1:
		return `{"anyOf":[` + inner() + "," + inner() + `]}`
	case 2:
		return `{"oneOf":[` + inner() + "," + inner() + `]}`
	case 3:
		beside := []string{`"default":null`, `"additionalProperties":false`, `"oneOf":[` + inner() + "," + inner() + "]",
			`"properties":{"p0":{"type":"string"}}`}[r.IntN(4)]
		return `{"allOf":[` + inner() + `],` + beside + `}`
	}
	var properties []string
	for i := range 1 + r.IntN(3) {
		properties = append(properties, fmt.Sprintf(`"p%d":%s`, i, inner()))
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":["p0"]}`
}

// valueOf makes a value that is valid under a strict form, unless it would be too deep.
func valueOf(r *rand.Rand, root, raw json.RawMessage, depth int) (v any, ok bool) {
	n, _ := readMembers(raw)
	if depth > 30 {
		return nil, false
	}
	if n.has("$ref") {
		return valueOf(r, root, definitionsOf(root)[n.text("$ref")], depth+1)
	}
	if alternatives, _ := n.list("anyOf"); alternatives != nil {
		r.Shuffle(len(alternatives), func(i, j int) {
			alternatives[i], alternatives[j] = alternatives[j], alternatives[i]
		})
		for _, a := range alternatives {
			if v, ok := valueOf(r, root, a, depth+1); ok {
				return v, true
			}
		}
		return nil, false
	}
	if values, _ := n.list("enum"); values != nil {
		n.set("const", values[r.IntN(len(values))])
	}
	if n.has("const") {
		return v, jsonbody.Unmarshal(n.raw("const"), &v) == nil
	}
	switch kinds, _ := n.list("type"); {
	case len(kinds) > 0 || n.text("type") == "null":
		return nil, true
	case n.text("type") == "integer":
		return 2 + r.IntN(5), true
	case n.text("type") == "boolean":
		return r.IntN(2) == 0, true
	case n.text("type") == "string":
		return "123e4567-e89b-12d3-a456-426614174000", true
	case n.text("type") == "array":
		list := []any{}
		least := int(n.raw("minItems")[0] - '0')
		for range least + r.IntN(2) {
			if v, ok := valueOf(r, root, n.raw("items"), depth+1); ok {
				list = append(list, v)
			}
		}
		return list, len(list) >= least
	}
	properties, _ := readMembers(n.raw("properties"))
	object := map[string]any{}
	for _, p := range properties {
		if object[p.name], ok = valueOf(r, root, p.value, depth+1); !ok {
			return nil, false
		}
	}
	return object, true
}

func compiled(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("schema.json", doc))
	compiled, err := c.Compile("schema.json")
	require.NoError(t, err, "%s", schema)
	return compiled
}

// Every value under the strict form is valid under the schema of the client.
func FuzzStrictForm(f *testing.F) {
	for seed := range uint64(1000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		schema := json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"a":%s,"b":%s},"$defs":{"A":%s,"B":%s}}`,
			schemaOf(r, 3), schemaOf(r, 2), schemaOf(r, 1), schemaOf(r, 1)))
		form, exact, ok := strictForm(schema)
		if !ok || !exact {
			return
		}
		strict, given := compiled(t, form), compiled(t, schema)
		for range 5 {
			v, ok := valueOf(r, form, form, 0)
			if !ok {
				continue
			}
			made, err := json.Marshal(v)
			require.NoError(t, err)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(made)))
			require.NoError(t, err)
			require.NoError(t, strict.Validate(value), "%s\n%s", form, made)
			require.NoError(t, given.Validate(value), "%s\n%s\n%s", schema, form, made)
		}
	})
}
