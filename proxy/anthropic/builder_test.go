package anthropic

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
)

var update = flag.Bool("update", false, "write the golden files, and the table of parameters into docs/api.md")

// request is a request with two tools, one of them with a name that codex keeps to itself.
func request(t testing.TB, more string) *MessageRequest {
	t.Helper()
	if more != "" {
		more = "," + more
	}
	req, err := DecodeMessage([]byte(`{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":"x"}],
		"tools":[{"name":"get_weather","input_schema":{"type":"object"}},
			{"name":"mcp__files__read","input_schema":{"type":"object"}}]` + more + `}`))
	require.NoError(t, err)
	return req
}

const (
	thinking  = `"thinking":{"type":"adaptive"}`
	reasoning = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"First."},` +
		`{"type":"summary_text","text":"Then."}],"encrypted_content":"gAAA"}`
)

func call(id, name, arguments string) json.RawMessage {
	data, err := json.Marshal(map[string]string{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id,
		"name": name, "arguments": arguments})
	if err != nil {
		panic(err)
	}
	return data
}

var usage = &openai.Usage{PromptTokens: 120, CompletionTokens: 40, TotalTokens: 160,
	PromptTokensDetails:     openai.PromptDetails{CachedTokens: 100},
	CompletionTokensDetails: openai.CompletionDetails{ReasoningTokens: 30}}

// answers are turns with every kind of event.
var answers = []struct {
	name, request string
	run           func(b *Builder, send func([]Event))
}{
	{"text", "", func(b *Builder, send func([]Event)) {
		send(b.Text("msg_1", ""))
		send(b.Text("msg_1", "Hello "))
		send(b.Text("msg_1", "<wörld>\n\"quoted\""))
		send(b.Item(json.RawMessage(`{"type":"message","id":"msg_1","content":[]}`)))
		send(b.End(Stop{Reason: StopEndTurn}, usage))
	}},
	{"thinking", thinking, func(b *Builder, send func([]Event)) {
		send(b.Ping())
		send(b.Thinking("rs_1", 0, "Fir"))
		send(b.Thinking("rs_1", 0, "st."))
		send(b.Ping())
		send(b.Thinking("rs_1", 1, "Then."))
		send(b.Item(json.RawMessage(reasoning)))
		send(b.Text("msg_1", "Done."))
		send(b.End(Stop{Reason: StopEndTurn}, usage))
	}},
	{"thinking_late", thinking, func(b *Builder, send func([]Event)) {
		send(b.Item(json.RawMessage(reasoning)))
		send(b.Item(call("1", "get_weather", `{"city":"Paris"}`)))
		send(b.End(Stop{Reason: StopToolUse}, usage))
	}},
	{"thinking_omitted", `"thinking":{"type":"adaptive","display":"omitted"}`, func(b *Builder, send func([]Event)) {
		send(b.Thinking("rs_1", 0, "First."))
		send(b.Item(json.RawMessage(reasoning)))
		send(b.Text("msg_1", "Done."))
		send(b.End(Stop{Reason: StopEndTurn}, nil))
	}},
	{"no_thinking", "", func(b *Builder, send func([]Event)) {
		send(b.Thinking("rs_1", 0, "First."))
		send(b.Item(json.RawMessage(reasoning)))
		send(b.Text("msg_1", "Done."))
		send(b.End(Stop{Reason: StopMaxTokens}, usage))
	}},
	{"tools", "", func(b *Builder, send func([]Event)) {
		send(b.Text("msg_1", "I look."))
		send(b.Item(call("1", "get_weather", `{"city":"Paris"}`)))
		send(b.Item(call("2", "client_mcp__files__read", ``)))
		send(b.Item(call("3", "get_weather", `{"city":`)))
		send(b.Item(call("4", "unknown", `{}`)))
		send(b.End(Stop{Reason: StopToolUse}, usage))
	}},
	{"single_call", `"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`,
		func(b *Builder, send func([]Event)) {
			send(b.Item(call("1", "get_weather", `{"city":"Paris"}`)))
			send(b.Item(call("2", "get_weather", `{"city":"Rome"}`)))
			send(b.End(Stop{Reason: StopToolUse}, usage))
		}},
	{"stop_sequence", `"stop_sequences":["END"]`, func(b *Builder, send func([]Event)) {
		send(b.Text("msg_1", "one"))
		send(b.Text("msg_2", "two"))
		send(b.End(Stop{Reason: StopSequence, Sequence: "END"}, usage))
	}},
	{"refusal", "", func(b *Builder, send func([]Event)) {
		send(b.End(Stop{Reason: StopRefusal, Explanation: "I cannot."}, usage))
	}},
	{"empty", "", func(b *Builder, send func([]Event)) { send(b.End(Stop{Reason: StopEndTurn}, usage)) }},
}

func builder(t testing.TB, more string, whole bool) *Builder {
	return NewBuilder(request(t, more), Head{ID: "msg_x", Model: "claude-x", InputTokens: 7, Whole: whole}, "mark:")
}

func TestStreams(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			var stream bytes.Buffer
			var w EventWriter
			a.run(builder(t, a.request, false), func(events []Event) {
				require.NoError(t, w.Write(&stream, events))
			})
			golden(t, a.name+".sse", stream.String())
		})
	}
}

func TestMessages(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			b := builder(t, a.request, true)
			a.run(b, func([]Event) {})
			message, err := json.MarshalIndent(b.Message(), "", "  ")
			require.NoError(t, err)
			golden(t, a.name+".json", string(message)+"\n")
		})
	}
}

// A client that accumulates the events, as Anthropic's libraries do, has the whole message.
func TestStreamsAddUpToTheMessage(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			b := builder(t, a.request, true)
			var stream bytes.Buffer
			var w EventWriter
			a.run(b, func(events []Event) { require.NoError(t, w.Write(&stream, events)) })
			want, err := json.Marshal(b.Message())
			require.NoError(t, err)
			assert.JSONEq(t, string(want), accumulate(t, stream.String()))
		})
	}
}

// accumulate is what @anthropic-ai/sdk does with the events of a stream.
func accumulate(t testing.TB, stream string) string {
	t.Helper()
	var message map[string]any
	var content []any
	input := ""
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		head, data, _ := strings.Cut(event, "\n")
		var e struct {
			Type    string
			Message map[string]any
			Index   int
			Block   map[string]any `json:"content_block"`
			Delta   map[string]any
			Usage   map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &e), event)
		require.Equal(t, "event: "+e.Type, head)
		switch e.Type {
		case EventMessageStart:
			message = e.Message
		case EventBlockStart:
			require.Len(t, content, e.Index)
			content, input = append(content, e.Block), ""
		case EventBlockDelta:
			require.Len(t, content, e.Index+1)
			block := content[e.Index].(map[string]any)
			kind := e.Delta["type"]
			delete(e.Delta, "type")
			for member, text := range e.Delta {
				if kind == "input_json_delta" {
					input += text.(string)
				} else {
					block[member] = block[member].(string) + text.(string)
				}
			}
		case EventBlockStop:
			block := content[e.Index].(map[string]any)
			if block["type"] == BlockToolUse {
				var object map[string]any
				require.NoError(t, json.Unmarshal([]byte(input), &object))
				block["input"] = object
			}
		case EventMessageDelta:
			for member, value := range e.Delta {
				message[member] = value
			}
			for member, value := range e.Usage {
				message["usage"].(map[string]any)[member] = value
			}
		}
	}
	if content != nil {
		message["content"] = content
	}
	data, err := json.Marshal(message)
	require.NoError(t, err)
	return string(data)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "if this is meant: go test ./proxy/anthropic -update")
}
