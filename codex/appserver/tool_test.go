package appserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/versions"
)

var weather = appserver.Tool{
	Name: "weather", Description: "what the sky does",
	InputSchema: json.RawMessage(
		`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
}

// functionCall is an item of the Responses API, "Function tool call".
type functionCall struct {
	Type, Name, Arguments string
	CallID                string `json:"call_id"`
}

func calls(o outcome) (list []functionCall) {
	for _, e := range o.events {
		item, ok := e.(appserver.ResponseItem)
		var call functionCall
		if ok && json.Unmarshal(item.Item, &call) == nil && call.Type == "function_call" {
			list = append(list, call)
		}
	}
	return list
}

func TestToolCallsEndTheTurn(t *testing.T) {
	interrupted := make(chan error, 1)
	c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Text("I will ask.")
		turn.Call(ctx, "weather", `{"city":"Paris"}`)
		turn.Call(ctx, "weather", `{"city":"Rome"}`)
		turn.EndResponse(appservertest.Usage{Input: 5, Output: 7})
		err := turn.Outputs(ctx)
		interrupted <- err
		return err
	}})
	r := hello()
	r.Tools = []appserver.Tool{weather}
	o := drain(t, start(t, c, r))
	assert.Equal(t, appserver.TurnCalledTools, o.end.Status)
	assert.Equal(t, "I will ask.", o.text)
	assert.Equal(t, int64(12), o.usage.TotalTokens)
	require.Len(t, calls(o), 2)
	assert.Equal(t, `{"city":"Rome"}`, calls(o)[1].Arguments)
	assert.NotEqual(t, calls(o)[0].CallID, calls(o)[1].CallID)
	assert.ErrorIs(t, <-interrupted, context.Canceled, "the call was not answered, and the turn was interrupted")
}

// Codex answers calls of tools that the client does not have: the turn continues.
func TestUnknownToolsDoNotEndTheTurn(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Call(ctx, "nosuch", `{}`)
		turn.EndResponse(appservertest.Usage{Input: 5, Output: 7})
		if err := turn.Outputs(ctx); err != nil {
			return err
		}
		turn.Call(ctx, "weather", `{"city":"Rome"}`)
		turn.EndResponse(appservertest.Usage{Input: 1, Output: 1})
		return turn.Outputs(ctx)
	}})
	r := hello()
	r.Tools = []appserver.Tool{weather}
	o := drain(t, start(t, c, r))
	assert.Equal(t, appserver.TurnCalledTools, o.end.Status)
	assert.Equal(t, int64(14), o.usage.TotalTokens, "both responses count")
	assert.Len(t, calls(o), 2)
}

// The fake accepts the tools that codex accepts.
func TestToolsOfTheFake(t *testing.T) {
	c := connect(t, &appservertest.Server{})
	schema := json.RawMessage(`{"type":"object"}`)
	for name, tools := range map[string][]appserver.Tool{
		"name": {{Name: "a.b", InputSchema: schema}}, "reserved": {{Name: "mcp__a", InputSchema: schema}},
		"twice": {weather, weather}, "schema": {{Name: "a", InputSchema: json.RawMessage(`3`)}},
	} {
		r := hello()
		r.Tools = tools
		_, err := c.StartTurn(bound(t), r)
		var refusal *rpc.Error
		assert.ErrorAs(t, err, &refusal, name)
	}
}

// A delivered call cannot be withdrawn.
func TestRetryAfterACallFails(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Call(ctx, "weather", `{"city":"Rome"}`)
		turn.Retry("Reconnecting... 1/1", "other", "")
		<-ctx.Done()
		return ctx.Err()
	}})
	r := hello()
	r.Tools = []appserver.Tool{weather}
	assert.Equal(t, appserver.TurnFailed, drain(t, start(t, c, r)).end.Status)
}

// Codex reports the failure of a response only when the calls in it are answered.
func TestCutOffAfterACall(t *testing.T) {
	c := connectWith(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Call(ctx, "weather", `{"city":"Paris"}`)
		turn.Call(ctx, "weather", `{"city":"Rome"}`)
		if err := turn.Outputs(ctx); err != nil {
			return err
		}
		return &appservertest.Failure{Message: "stream disconnected before completion", Info: "other"}
	}}, appserver.Options{CallTimeout: 10 * time.Millisecond})
	r := hello()
	r.Tools = []appserver.Tool{weather}
	o := drain(t, start(t, c, r))
	assert.Equal(t, appserver.TurnFailed, o.end.Status)
	assert.Len(t, calls(o), 2)
}

func testCutOffAfterACall(t *testing.T, l *live) {
	for name, then := range map[string]func(*stream){
		"cut":        (*stream).drop,
		"failed":     func(s *stream) { s.failed("server_error") },
		"incomplete": func(s *stream) { s.incomplete("content_filter") },
		"silent":     func(s *stream) { <-s.request.Context().Done() },
	} {
		// To an older one the silence after the call is the end.
		if l.minor < versions.MarksResponses && name != "silent" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			u := l.plays(func(s *stream) {
				s.created()
				callItem(s, "call_a", `{"city":"Paris"}`)
				then(s)
			}, helloWorld)
			c := l.connect(t, appserver.Options{CallTimeout: 200 * time.Millisecond})
			r := liveHello()
			r.Tools = []appserver.Tool{weather}
			turn, err := c.StartTurn(bound(t), r)
			require.NoError(t, err)
			t.Cleanup(turn.Leave) // 0.140 does not always answer the interrupt
			o := drain(t, turn)
			if l.minor >= versions.MarksResponses {
				assert.Equal(t, appserver.TurnFailed, o.end.Status)
			}
			assert.Len(t, calls(o), 1)
			assert.Len(t, u.requests(), 1)
		})
	}
}

// A model that was only slow is not cut off.
func testSlowAfterACall(t *testing.T, l *live) {
	later := make(chan struct{})
	l.plays(func(s *stream) {
		s.created()
		callItem(s, "call_a", `{"city":"Paris"}`)
		<-later
		callItem(s, "call_b", `{"city":"Rome"}`)
		s.completed()
	}, helloWorld)
	c := l.connect(t, appserver.Options{CallTimeout: 50 * time.Millisecond})
	r := liveHello()
	r.Tools = []appserver.Tool{weather}
	turn := start(t, c, r)
	time.AfterFunc(300*time.Millisecond, func() { close(later) })
	o := drain(t, turn)
	assert.Equal(t, appserver.TurnCalledTools, o.end.Status)
	if l.minor >= versions.MarksResponses {
		assert.Len(t, calls(o), 2)
	}
}

// callItem calls the tool weather.
func callItem(s *stream, id, arguments string) {
	item := map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": "weather", "arguments": ""}
	s.event("response.output_item.added", map[string]any{"item": item})
	s.event("response.function_call_arguments.delta", map[string]any{"item_id": "fc_" + id, "delta": arguments})
	item["arguments"] = arguments
	s.event("response.output_item.done", map[string]any{"item": item})
}

func testTools(t *testing.T, l *live) {
	u := l.plays(func(s *stream) {
		s.created()
		s.deltas("msg_1", "I will ask.")
		s.itemDone("msg_1", "I will ask.")
		callItem(s, "call_a", `{"city":"Paris"}`)
		callItem(s, "call_b", `not even JSON`)
		s.completed()
	}, helloWorld)
	c := l.Conn
	r := liveHello()
	r.Tools = []appserver.Tool{weather}
	turn := start(t, c, r)
	o := drain(t, turn)
	require.NoError(t, turn.Close(context.Background()))
	assert.Equal(t, appserver.TurnCalledTools, o.end.Status)
	if l.minor >= versions.MarksResponses {
		assert.Equal(t, int64(18), o.usage.TotalTokens)
	}
	require.Equal(t, []functionCall{
		{"function_call", "weather", `{"city":"Paris"}`, "call_a"},
		{"function_call", "weather", `not even JSON`, "call_b"},
	}, calls(o))

	// The follow-up: calls and outputs are history.
	r.Items = append(r.Items, history.TextMessage("assistant", "I will ask."))
	for _, call := range calls(o) {
		r.Items = append(r.Items, history.FunctionCall(call.CallID, call.Name, call.Arguments),
			history.FunctionCallOutput(call.CallID, "sunny in "+call.CallID))
	}
	assert.Equal(t, "Hello world", drain(t, start(t, c, r)).text)
	require.Len(t, u.requests(), 2, "codex has sent no further requests")
	var body struct {
		Tools []struct{ Name string }
		Input []struct {
			Type   string
			CallID string `json:"call_id"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(u.requests()[1]), &body))
	if l.minor >= 153 { // an older one always has tools of its own
		require.Len(t, body.Tools, 1)
	}
	assert.Equal(t, "weather", body.Tools[len(body.Tools)-1].Name)
	order := ""
	for _, item := range body.Input {
		order += item.Type + " " + item.CallID + ","
	}
	assert.True(t, strings.HasSuffix(order,
		"function_call call_a,function_call_output call_a,function_call call_b,function_call_output call_b,"), order)
}

// The form in which codex 0.169 sends the schema of a tool; the checks of package openai rest on it. An empty string
// means that codex refuses the whole thread.
func testToolSchemas(t *testing.T, l *live) {
	u := l.plays(helloWorld)
	c := l.Conn
	if l.minor < 153 {
		return // it puts tools of its own first, and differs in one form: it takes half a minItems
	}
	property := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	described := func(n int) string {
		return property(`{"type":"string","description":"` +
			strings.Repeat("d", n-len(property(`{"type":"string","description":""}`))) + `"}`)
	}
	for given, want := range map[string]string{
		// kept
		property(`{"type":["string","null"],"description":"d","enum":["x",null]}`):                "=",
		property(`{"type":"array","items":{"type":"integer"},"minItems":1}`):                      "=",
		property(`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`):    "=",
		property(`{"anyOf":[{"type":"string"},{"type":"null"}]}`):                                 "=",
		property(`{"oneOf":[{"type":"string"},{"type":"null"}]}`):                                 "=",
		property(`{"allOf":[{"type":"string"},{"type":"string"}]}`):                               "=",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"null"}}}`: "=",
		`{"type":"object","properties":{},"required":["a"],"additionalProperties":false}`:         "=",
		described(5000): "=",
		// silently dropped or changed
		described(5001): property(`{"type":"string"}`),
		property(`{"type":"string","minLength":1,"pattern":"x","format":"date","default":"q","title":"t",` +
			`"nullable":true}`): property(`{"type":"string"}`),
		property(
			`{"type":"integer","minimum":1,"exclusiveMaximum":5,"multipleOf":2}`): property(`{"type":"integer"}`),
		property(
			`{"type":"array","items":{"type":"string"},"maxItems":3,"uniqueItems":true}`): property(
			`{"type":"array","items":{"type":"string"}}`),
		property(`{"const":3}`):               property(`{"type":"string","enum":[3]}`),
		property(`{"enum":[1]}`):              property(`{"type":"string","enum":[1]}`),
		property(`{"description":"d"}`):       property(`{}`),
		property(`{"type":"wizard"}`):         property(`{}`),
		property(`{"not":{"type":"string"}}`): property(`{}`),
		property(`true`):                      property(`{"type":"string"}`),
		`{}`:                                  `{}`,
		// refused
		`3`: "", `[]`: "", `{"type":"null"}`: "",
		property(`"x"`): "", property(`null`): "", property(`{"type":"string","description":1}`): "", property(
			`{"type":"string","enum":"x"}`): "",
		property(`{"$ref":1}`): "", property(`{"type":"array","items":[{}]}`): "", property(
			`{"type":"array","minItems":-1}`): "", property(`{"type":"array","minItems":1.5}`): "",
		property(`{"anyOf":{}}`): "", property(`{"oneOf":[1]}`): "", property(
			`{"type":"object","additionalProperties":1}`): "",
		`{"type":"object","properties":[]}`: "", `{"type":"object","required":"a"}`: "",
		`{"type":"object","required":[1]}`: "",
	} {
		u.script(helloWorld)
		r := liveHello()
		r.Tools = []appserver.Tool{{Name: "f", InputSchema: json.RawMessage(given)}}
		turn, err := c.StartTurn(bound(t), r)
		if want == "" {
			var refusal *rpc.Error
			require.ErrorAs(t, err, &refusal, given)
			assert.Contains(t, refusal.Message, "input schema is not supported")
			continue
		}
		require.NoError(t, err, given)
		drain(t, turn)
		require.NoError(t, turn.Close(bound(t)))
		var body struct {
			Tools []struct {
				Strict     bool
				Parameters json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal([]byte(u.requests()[0]), &body))
		if want == "=" {
			want = given
		}
		assert.JSONEq(t, want, string(body.Tools[0].Parameters))
		assert.False(t, body.Tools[0].Strict)
	}
}

// The names that a tool may have, and the settings of a turn in the request to the model endpoint.
func testToolNamesAndSettings(t *testing.T, l *live) {
	u := l.plays(helloWorld)
	c := l.Conn
	for name, accepted := range map[string]bool{
		"a": true, "-": true, "mcpx": true, strings.Repeat("a", 128): true,
		"": false, "mcp": false, "mcp__x": false, "a.b": false, "é": false, strings.Repeat("a", 129): false,
	} {
		r := liveHello()
		r.Tools = []appserver.Tool{{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}}
		turn, err := c.StartTurn(bound(t), r)
		assert.Equal(t, accepted, err == nil, "%q: %v", name, err)
		if err == nil {
			require.NoError(t, turn.Close(bound(t)))
		}
	}
	r := liveHello()
	r.Tools = []appserver.Tool{weather, weather}
	_, err := c.StartTurn(bound(t), r)
	assert.ErrorContains(t, err, "duplicate")

	for tier, want := range map[string]string{"": "", "flex": "flex", "priority": "priority", "fast": "priority",
		"auto": "", "scale": ""} {
		u.script(helloWorld)
		r := liveHello()
		r.ServiceTier, r.Verbosity = tier, "high"
		drain(t, start(t, c, r))
		var body struct {
			ServiceTier string `json:"service_tier"`
			Text        struct{ Verbosity string }
		}
		require.NoError(t, json.Unmarshal([]byte(u.requests()[0]), &body))
		if tier == "flex" && l.minor < 169 {
			want = ""
		}
		assert.Equal(t, want, body.ServiceTier, tier)
		assert.Equal(t, "high", body.Text.Verbosity)
	}
}

// Codex 0.169 reserves two names: it accepts tools of the client with them, and hides them from the model. Package
// openai renames them.
func testHiddenToolNames(t *testing.T, l *live) {
	u := l.plays(helloWorld)
	c := l.Conn
	r := liveHello()
	for _, name := range []string{
		"exec_command", "shell_command", "client_exec_command", "shell", "local_shell", "write_stdin", "apply_patch",
		"view_image", "update_plan",
		"request_user_input", "web_search", "exec", "wait", "get_goal", "tool_search", "spawn_agent",
		"image_generation",
	} {
		r.Tools = append(r.Tools, appserver.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	drain(t, start(t, c, r))
	var body struct{ Tools []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(u.requests()[0]), &body))
	var hidden []string
	for _, tool := range r.Tools {
		if !slices.ContainsFunc(body.Tools, func(shown struct{ Name string }) bool { return shown.Name == tool.Name }) {
			hidden = append(hidden, tool.Name)
		}
	}
	want := []string{"exec_command", "shell_command"}
	if l.minor < 153 {
		want = nil
	}
	assert.Equal(t, want, hidden)
}
