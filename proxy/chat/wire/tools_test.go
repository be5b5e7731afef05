package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

// asking is a request with those parameters.
func asking(extra string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + extra + `}`
}

func decoded(t *testing.T, body string) *Request {
	t.Helper()
	req, err := Decode([]byte(body), jsonbody.Reading{})
	require.NoError(t, err)
	return req
}

func names(tools []clienttool.Tool) []string {
	list := []string{}
	for _, tool := range tools {
		list = append(list, tool.Name)
	}
	return list
}

func TestTools(t *testing.T) {
	req := decoded(t, asking(`"tools":[
		{"type":"function","function":{"name":"a","description":"d",
		"parameters":{"type":"object","properties":{"x":{"type":"string"}}},"strict":true}},
		{"type":"function","function":{"name":"b","parameters":{}}},
		{"type":"function","function":{"name":"c","description":"d",
		"parameters":{"type":"object","properties":{"x":{"type":"string","minLength":2}}}}}]`))
	require.Len(t, req.Tools, 3)
	assert.Equal(t, []clienttool.Function{
		{Name: "a", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)},
		{Name: "b", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
		{Name: "c", Description: "d\n\nJSON schema of the parameters: " +
			`{"type":"object","properties":{"x":{"type":"string","minLength":2}}}`,
			Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","minLength":2}}}`)},
	}, []clienttool.Function{req.Tools[0].Wire, req.Tools[1].Wire, req.Tools[2].Wire})
	assert.Equal(t, []string{"tools.strict"}, req.Ignored)
	assert.Empty(t, req.Instructions)
	assert.False(t, req.SingleCall)
	assert.False(t, req.Legacy)
}

func TestToolChoice(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}},` +
		`{"type":"function","function":{"name":"c"}}],`
	group := func(mode string) string {
		return `{"type":"allowed_tools","allowed_tools":{"mode":"` + mode +
			`","tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"c"}}]}}`
	}
	for choice, want := range map[string]struct {
		tools []string
		asked string // part of the instruction
	}{
		`"auto"`:     {[]string{"a", "b", "c"}, ""},
		`null`:       {[]string{"a", "b", "c"}, ""},
		`"none"`:     {[]string{}, ""},
		`"required"`: {[]string{"a", "b", "c"}, "one of your functions"},
		`{"type":"function","function":{"name":"b"}}`: {[]string{"b"}, "the function b."},
		group("auto"):     {[]string{"a", "c"}, ""},
		group("required"): {[]string{"a", "c"}, "functions a, c."},
	} {
		t.Run(choice, func(t *testing.T) {
			req := decoded(t, asking(tools+`"tool_choice":`+choice))
			assert.Equal(t, want.tools, names(req.Tools))
			if want.asked == "" {
				assert.Empty(t, req.Instructions)
				return
			}
			require.Len(t, req.Instructions, 1)
			assert.Contains(t, req.Instructions[0], want.asked)
		})
	}
	req := decoded(t, asking(tools+`"parallel_tool_calls":false`))
	assert.True(t, req.SingleCall)
	assert.Equal(t, []string{"Call at most one function in a message; call the next one when you have the result."}, req.Instructions)
}

func TestLegacyFunctions(t *testing.T) {
	req := decoded(t, `{"model":"m","functions":[{"name":"a","description":"d"},{"name":"b"}],
		"function_call":{"name":"a"},"messages":[
		{"role":"user","content":"x"},
		{"role":"assistant","content":null,"function_call":{"name":"a","arguments":"{}"}},
		{"role":"function","name":"a","content":"out"}]}`)
	assert.True(t, req.Legacy)
	assert.True(t, req.SingleCall)
	assert.Equal(t, []string{"a"}, names(req.Tools))
	assert.Len(t, req.Instructions, 1)
	assert.Equal(t, []clienttool.Call{{ID: "call_of_message_1", Name: "a", Arguments: "{}"}}, req.Messages[1].Calls)
	assert.Equal(t, Message{Role: "tool", CallID: "call_of_message_1",
		Parts: []media.Part{{Text: "out", At: "messages[2].content"}}}, req.Messages[2])
	assert.Empty(t, decoded(t, asking(`"functions":[{"name":"a"}],"function_call":"none"`)).Tools)
	assert.Len(t, decoded(t, asking(`"functions":[{"name":"a"}],"function_call":"auto"`)).Tools, 1)
}

// A custom tool is a function of one string for the model; calls of it in the history are calls of that function.
func TestCustomTools(t *testing.T) {
	req := decoded(t, `{"model":"m","tools":[{"type":"custom","custom":{"name":"a","description":"d",
		"format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: X"}}}},
		{"type":"custom","custom":{"name":"b","format":{"type":"text"}}}],"messages":[
		{"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"a","input":"say \"x\""}}]},
		{"role":"tool","tool_call_id":"1","content":"out"}]}`)
	require.Len(t, req.Tools, 2)
	assert.Equal(t, "d", req.Tools[0].Wire.Description)
	assert.Contains(t, string(req.Tools[0].Wire.Parameters), "follows this lark grammar:\\nstart: X")
	assert.Contains(t, string(req.Tools[1].Wire.Parameters), "free text")
	name, arguments := req.Messages[0].Calls[0].Wire()
	assert.Equal(t, "a", name)
	assert.Equal(t, `{"input":"say \"x\""}`, arguments)
	assert.Equal(t, clienttool.Call{ID: "2", Name: "a", Arguments: "so", Custom: true},
		req.Tools[0].Call("2", `{"input":"so"}`))
}

func TestToolsRefused(t *testing.T) {
	tool := func(f string) string { return asking(`"tools":[{"type":"function","function":` + f + `}]`) }
	const f = `{"type":"function","function":{"name":"f"}}`
	many := strings.Repeat(f+",", 512) + f
	for _, tc := range []struct{ name, body, code, param string }{
		{"custom without a body", asking(`"tools":[{"type":"custom"}]`), "name_required", "tools[0].custom.name"},
		{"custom without a name", asking(`"tools":[{"type":"custom","custom":{}}]`), "name_required",
			"tools[0].custom.name"},
		{"hosted", asking(`"tools":[` + f + `,{"type":"web_search"}]`), "unsupported_parameter", "tools[1].type"},
		{"no function", asking(`"tools":[{"type":"function"}]`), "name_required", "tools[0].function.name"},
		{"no name", tool(`{}`), "name_required", "tools[0].function.name"},
		{"dot", tool(`{"name":"a.b"}`), "invalid_value", "tools[0].function.name"},
		{"not ASCII", tool(`{"name":"é"}`), "invalid_value", "tools[0].function.name"},
		{"long name", tool(`{"name":"` + strings.Repeat("a", 128+1) + `"}`), "invalid_value",
			"tools[0].function.name"},
		{"twice", asking(`"tools":[` + f + `,` + f + `]`), "invalid_value", "tools[1].function.name"},
		{"too many", asking(`"tools":[` + many + `]`), "invalid_value", "tools"},
		{"schema", tool(`{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"wizard"}}}}`),
			"invalid_function_parameters", "tools[0].function.parameters.properties.a.type"},
		{"choice", asking(`"tools":[` + f + `],"tool_choice":"sometimes"`), "invalid_value", "tool_choice"},
		{"choice of the wrong type", asking(`"tools":[` + f + `],"tool_choice":[1]`), "invalid_type", "tool_choice"},
		{"choice of an unknown one", asking(`"tools":[` + f +
			`],"tool_choice":{"type":"function","function":{"name":"g"}}`), "invalid_value", "tool_choice"},
		{"choice without tools", asking(`"tool_choice":"required"`), "invalid_value", "tool_choice"},
		{"hosted choice", asking(`"tools":[` + f + `],"tool_choice":{"type":"web_search"}`),
			"unsupported_parameter", "tool_choice.type"},
		{"custom choice of an unknown one", asking(`"tools":[` + f +
			`],"tool_choice":{"type":"custom","custom":{"name":"g"}}`), "invalid_value", "tool_choice"},
		{"group without mode", asking(`"tools":[` + f + `],"tool_choice":{"type":"allowed_tools"}`), "invalid_value",
			"tool_choice.mode"},
		{"both forms", asking(`"tools":[` + f + `],"functions":[{"name":"g"}]`), "invalid_value", "functions"},
		{"legacy name", asking(`"functions":[{"name":"g"},{"name":"a b"}]`), "invalid_value", "functions[1].name"},
		{"legacy twice", asking(`"functions":[{"name":"g"},{"name":"g"}]`), "invalid_value", "functions[1].name"},
		{"legacy choice", asking(`"functions":[{"name":"g"}],"function_call":"required"`), "invalid_value",
			"function_call"},
		{"legacy choice of an unknown one", asking(`"functions":[{"name":"g"}],"function_call":{"name":"h"}`),
			"invalid_value", "function_call"},
	} {
		t.Run(tc.name, func(t *testing.T) { rejects(t, tc.body, tc.code, tc.param) })
	}
}

func TestHistoryOfCalls(t *testing.T) {
	history := func(messages ...string) string {
		return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
	}
	calling := func(ids ...string) string {
		var calls []string
		for _, id := range ids {
			calls = append(calls, `{"id":"`+id+`","type":"function","function":{"name":"mcp__f","arguments":"{}"}}`)
		}
		return `{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"x"}` }
	const user = `{"role":"user","content":"x"}`
	for _, ok := range []string{
		history(user, calling("1", "2"), result("2"), result("1"), user),
		history(calling("1"), result("1"), calling("1"), result("1")),
		history(user, `{"role":"assistant","content":"so","function_call":{"name":"f","arguments":""}}`,
			`{"role":"function","name":"f","content":[{"type":"text","text":"x"}]}`),
	} {
		decoded(t, ok)
	}
	for _, tc := range []struct{ name, body, code, param string }{
		{"result without a call", history(user, result("1")), "tool_call_id_unknown", "messages[1].tool_call_id"},
		{"result of another id", history(calling("1"), result("2")), "tool_call_id_unknown",
			"messages[1].tool_call_id"},
		{"result without an id", history(calling("1"), `{"role":"tool","content":"x"}`), "tool_call_id_required",
			"messages[1].tool_call_id"},
		{"two results", history(calling("1"), result("1"), result("1")), "tool_call_id_unknown",
			"messages[2].tool_call_id"},
		{"late result", history(calling("1"), result("1"), user, result("1")), "tool_call_id_unknown",
			"messages[3].tool_call_id"},
		{"call without a result", history(calling("1", "2"), result("1"), user), "tool_result_missing",
			"messages[0].tool_calls"},
		{"call at the end", history(user, calling("1")), "tool_result_missing", "messages[1].tool_calls"},
		{"one id twice", history(calling("1", "1"), result("1")), "invalid_value", "messages[0].tool_calls[1].id"},
		{"call without id", history(calling("")), "tool_call_id_required", "messages[0].tool_calls[0].id"},
		{"call of a user", history(`{"role":"user","content":"x","tool_calls":[{"id":"1"}]}`), "invalid_value",
			"messages[0].tool_calls"},
		{"call of nothing", history(`{"role":"assistant","tool_calls":[{"id":"1"}]}`), "name_required",
			"messages[0].tool_calls[0].function.name"},
		{"custom call of nothing", history(`{"role":"assistant","tool_calls":[{"id":"1","type":"custom"}]}`),
			"name_required", "messages[0].tool_calls[0].custom.name"},
		{"call of a hosted tool", history(`{"role":"assistant","tool_calls":[{"id":"1","type":"web_search"}]}`),
			"unsupported_parameter", "messages[0].tool_calls[0].type"},
		{"name of a call", history(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a b"}}]}`),
			"invalid_value", "messages[0].tool_calls[0].function.name"},
		{"image from a tool", history(calling("1"),
			`{"role":"tool","tool_call_id":"1","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`),
			"unsupported_parameter", "messages[1].content[0].type"},
		{"legacy result without a call", history(`{"role":"function","name":"f","content":"x"}`),
			"tool_call_id_unknown", "messages[0].name"},
		{"legacy call without a result", history(`{"role":"assistant","function_call":{"name":"f","arguments":""}}`,
			user), "tool_result_missing", "messages[0].function_call"},
		{"both forms",
			history(
				`{"role":"assistant","function_call":{"name":"f"},"tool_calls":[{"id":"1","function":{"name":"f"}}]}`),
			"invalid_value", "messages[0].function_call"},
	} {
		t.Run(tc.name, func(t *testing.T) { rejects(t, tc.body, tc.code, tc.param) })
	}
}

func TestManyToolsAndALongHistory(t *testing.T) {
	var tools []string
	for i := range 300 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"t%d"}}`, i))
	}
	message := `{"role":"user","content":"` + strings.Repeat("x", 2000) + `"}`
	req := decoded(t, `{"model":"m","tools":[`+strings.Join(tools, ",")+`],"messages":[`+strings.Repeat(message+",",
		1000)+message+`]}`)
	assert.Len(t, req.Tools, 300)
	assert.Len(t, req.Messages, 1001)
	rejects(t, `{"model":"m","messages":[`+strings.Repeat(`{"role":"user","content":"x"},`, jsonbody.MaxList)+message+`]}`,
		"invalid_value", "messages")
}
