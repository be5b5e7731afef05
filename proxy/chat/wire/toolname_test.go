package wire

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// nameOf makes a name of the pieces that the rules are about, or one that such a name becomes.
func nameOf(r *rand.Rand) string {
	pieces := []string{"mcp", "mcp__", "client_", "exec_command", "shell_command", "a", "-", "__", "t_",
		"t_0123456789abcdef_", strings.Repeat("x", 60), strings.Repeat("y", 120)}
	name := ""
	for range 1 + r.IntN(4) {
		name += pieces[r.IntN(len(pieces))]
	}
	if name = name[:min(len(name), 128)]; r.IntN(3) == 0 {
		return clienttool.WireName("", name)
	}
	return name
}

var (
	legalForCodex = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	keptByCodex   = regexp.MustCompile(`^(mcp|mcp__.*|exec_command|shell_command)$`)
)

// Codex accepts and offers tools of all names, and each call comes back under the client's name for the tool; a call in
// the history has the name under which the tool is offered.
func FuzzToolNames(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		names := map[string]bool{}
		for range 30 {
			names[nameOf(r)] = r.IntN(2) == 0 // a custom tool?
		}
		chat, responses := offering(t, names)
		require.Len(t, chat.Tools, len(names))
		require.Len(t, responses.Tools.Offered, len(names))
		for _, tools := range [][]clienttool.Tool{chat.Tools, responses.Tools.Offered} {
			seen := map[string]bool{}
			for _, tool := range tools {
				require.Regexp(t, legalForCodex, tool.Wire.Name)
				require.NotRegexp(t, keptByCodex, tool.Wire.Name)
				require.False(t, seen[tool.Wire.Name], tool.Wire.Name)
				seen[tool.Wire.Name] = true
				call := tool.Call("id", `{"input":"x"}`)
				require.Contains(t, names, call.Name)
				require.Equal(t, names[call.Name], call.Custom)
				wire, arguments := call.Wire()
				require.Equal(t, tool.Wire.Name, wire)
				require.Equal(t, `{"input":"x"}`, arguments)
			}
		}
		for _, m := range chat.Messages {
			for _, call := range m.Calls {
				require.Contains(t, names, call.Name)
			}
		}
	})
}

// offering makes a request of both APIs with tools of these names. The chat has called each of them.
func offering(t *testing.T, names map[string]bool) (*Request, *wire.Request) {
	var chat, flat, calls, results []string
	for name, custom := range names {
		kind, body := "function", `"arguments":"{}"`
		if custom {
			kind, body = "custom", `"input":"x"`
		}
		chat = append(chat, fmt.Sprintf(`{"type":%q,%[1]q:{"name":%q}}`, kind, name))
		flat = append(flat, fmt.Sprintf(`{"type":%q,"name":%q}`, kind, name))
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":%q,%[2]q:{"name":%[1]q,%[3]s}}`, name, kind, body))
		results = append(results, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"x"}`, name))
	}
	one, err := Decode([]byte(`{"model":"m","tools":[`+strings.Join(chat, ",")+`],"messages":[`+
		`{"role":"assistant","tool_calls":[`+strings.Join(calls, ",")+`]},`+strings.Join(results, ",")+`]}`), jsonbody.Reading{})

	require.NoError(t, err)
	two, err := wire.Decode([]byte(`{"model":"m","input":"x","tools":[`+strings.Join(flat, ",")+`]}`), jsonbody.Reading{})
	require.NoError(t, err)
	return one, two
}

// A choice of a tool with a name of codex offers that tool, and asks the model for it by the name that the model knows.
func TestChoiceOfARenamedTool(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"mcp__a"}},` +
		`{"type":"function","function":{"name":"client_mcp__a"}},{"type":"custom","custom":{"name":"exec_command"}}],`
	for choice, want := range map[string]struct{ name, wire string }{
		`{"type":"function","function":{"name":"mcp__a"}}`:        {"mcp__a", "client_mcp__a"},
		`{"type":"function","function":{"name":"client_mcp__a"}}`: {"client_mcp__a", "client_client_mcp__a"},
		`{"type":"custom","custom":{"name":"exec_command"}}`:      {"exec_command", "client_exec_command"},
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[` +
			`{"type":"custom","custom":{"name":"exec_command"}}]}}`: {"exec_command", "client_exec_command"},
	} {
		req := decoded(t, asking(tools+`"tool_choice":`+choice))
		require.Len(t, req.Tools, 1, choice)
		assert.Equal(t, want.name, req.Tools[0].Name)
		assert.Equal(t, want.wire, req.Tools[0].Wire.Name)
		assert.Contains(t, req.Instructions[0], "the function "+want.wire+".")
	}
	req := decoded(t, asking(`"functions":[{"name":"mcp__a"},{"name":"b"}],"function_call":{"name":"mcp__a"}`))
	require.Len(t, req.Tools, 1)
	assert.Equal(t, "client_mcp__a", req.Tools[0].Wire.Name)

	flat, err := wire.Decode([]byte(`{"model":"m","input":"x","tool_choice":{"type":"function","name":"mcp__a"},`+
		`"tools":[{"type":"function","name":"mcp__a"},{"type":"function","name":"b"}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	require.Len(t, flat.Tools.Offered, 1)
	assert.Equal(t, "client_mcp__a", flat.Tools.Offered[0].Wire.Name)
	assert.Contains(t, string(flat.Tools.Choice), `"name":"mcp__a"`)
}
