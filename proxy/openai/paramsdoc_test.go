package openai

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of parameters and words into docs/api.md")

// paramTable is a table of parameters for the documentation: by rule, then by name.
func paramTable(table params) string {
	var b strings.Builder
	b.WriteString("| parameter | rule | |\n|---|---|---|\n")
	for _, r := range []struct {
		rule rule
		word string
	}{{honoured, "honoured"}, {ignored, "ignored"}, {refused, "refused"}} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if p := table[name]; p.rule == r.rule {
				why := p.why
				if values := paramValues[name].String(); p.rule == ignored && values != "" {
					why += "; " + values
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, r.word, why)
			}
		}
	}
	return b.String()
}

func TestParametersInTheDocs(t *testing.T) {
	t.Run("chat", func(t *testing.T) { inTheDocs(t, "parameters", paramTable(chatParams)) })
	t.Run("completions",
		func(t *testing.T) { inTheDocs(t, "parameters of completions", paramTable(completionParams)) })
	t.Run("responses", func(t *testing.T) { inTheDocs(t, "parameters of responses", paramTable(responseParams)) })
	t.Run("compact", func(t *testing.T) { inTheDocs(t, "parameters of compactions", paramTable(compactParams)) })
}

// inTheDocs compares a table with the one between two comments of docs/api.md.
func inTheDocs(t *testing.T, name, table string) {
	end := "<!-- end of " + name + " -->"
	path := filepath.Join("..", "..", "docs", "api.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), "<!-- "+name+": ")
	require.True(t, ok)
	begin, rest, ok := strings.Cut(rest, " -->\n")
	require.True(t, ok)
	there, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		whole := head + "<!-- " + name + ": " + begin + " -->\n" + table + end + tail
		require.NoError(t, os.WriteFile(path, []byte(whole), 0o644))
		return
	}
	assert.Equal(t, table, there, "if this is meant: go test ./proxy/openai -run InTheDocs -update")
}

// valid is a value of the parameter that has the right type and is not empty.
func valid(name string) string {
	want := paramValues[name]
	switch want.kind {
	case "a number", "a whole number":
		return fmt.Sprint(max(want.min, 1))
	case "a boolean":
		return "true"
	case "a list":
		return `[{"a":"b"}]`
	case "an object", "metadata":
		return `{"a":"b"}`
	}
	return fmt.Sprintf("%q", append(want.words, "x")[0])
}

// Every parameter in the table can be sent, and follows its rule.
func TestParametersFollowTheTable(t *testing.T) {
	values := map[string]string{ // of the honoured ones
		"model": `"m"`, "messages": `[{"role":"user","content":"x"}]`, "stream": `true`,
		"stream_options":   `{"include_usage":true}`,
		"reasoning_effort": `"low"`, "n": `2`, "response_format": `{"type":"json_object"}`, "modalities": `["text"]`,
		"reasoning": `{"summary":"auto"}`, "service_tier": `"flex"`, "verbosity": `"low"`,
		"stop":                `["x"]`,
		"parallel_tool_calls": `false`,
		"tools":               `[{"type":"function","function":{"name":"f"}}]`, "tool_choice": `"auto"`,
		"functions": `[{"name":"f"}]`, "function_call": `"auto"`,
	}
	followTable(t, chatParams, `"messages":[{"role":"user","content":"x"}]`, values,
		func(body []byte) ([]string, error) {
			req, err := DecodeChat(body)
			if err != nil {
				return nil, err
			}
			return req.Ignored, nil
		})
}

// followTable sends each parameter of a table, with the value of an honoured one, to decode,
// which returns the ignored ones. required is the required member beside the model.
func followTable(t *testing.T, table params, required string, values map[string]string,
	decode func(body []byte) (ignored []string, err error)) {
	t.Helper()
	for name, p := range table {
		value, known := values[name]
		if !known {
			require.NotEqual(t, honoured, p.rule, "%s: give this test a value", name)
			value = valid(name)
		}
		parameters := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(`{"model":"m",`+required+`}`), &parameters))
		parameters[name] = json.RawMessage(value)
		body, err := json.Marshal(parameters)
		require.NoError(t, err)
		ignoredParams, err := decode(body)
		if p.rule == refused {
			var refusal *Error
			require.ErrorAs(t, err, &refusal, name)
			assert.Equal(t, "unsupported_parameter", refusal.Code, name)
			assert.Equal(t, name, refusal.Param)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, p.rule == ignored, slices.Contains(ignoredParams, name), name)
	}
}
