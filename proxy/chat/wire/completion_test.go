package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
)

func TestStreamEncoding(t *testing.T) {
	a := Answer{ID: "chatcmpl-1", Created: 5, Model: "m"}
	var b bytes.Buffer
	for _, c := range []Chunk{a.RoleChunk(0, true), a.TextChunk(0, "hé\n"), a.FinishChunk(0, openai.FinishStop),
		a.UsageChunk(&openai.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3})} {
		require.NoError(t, openai.WriteEvent(&b, c))
	}
	require.NoError(t, openai.WriteKeepalive(&b))
	require.NoError(t, openai.WriteDone(&b))
	const head = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m",`
	assert.Equal(t,
		head+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"+
			head+`"choices":[{"index":0,"delta":{"content":"hé\n"},"finish_reason":null}]}`+"\n\n"+
			head+`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
			head+`"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,`+
			`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`+"\n\n"+
			": keepalive\n\ndata: [DONE]\n\n", b.String())
}

func TestStreamOfCalls(t *testing.T) {
	call := clienttool.Call{ID: "call_1", Name: "f", Arguments: `{"a":1}`}
	events := func(a Answer, chunks ...Chunk) string {
		var b bytes.Buffer
		for _, c := range chunks {
			require.NoError(t, openai.WriteEvent(&b, c))
		}
		return strings.ReplaceAll(b.String(), `data: {"id":"","object":"chat.completion.chunk","created":0,"model":"",`,
			"")
	}
	a := Answer{}
	assert.Equal(t, `"choices":[{"index":2,"delta":{"role":"assistant","content":null},"finish_reason":null}]}`+"\n\n"+
		`"choices":[{"index":2,"delta":{"tool_calls":[{"index":1,"id":"call_1","type":"function",`+
		`"function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`+"\n\n"+
		`"choices":[{"index":2,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\":1}"}}]},`+
		`"finish_reason":null}]}`+"\n\n"+
		`"choices":[{"index":2,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`+"\n\n"+
		`"choices":[{"index":2,"delta":{"refusal":"no"},"finish_reason":null}]}`+"\n\n",
		events(a, append(append([]Chunk{a.RoleChunk(2, false)}, a.CallChunks(2, 1, call)...),
			a.ReasoningChunk(2, "hm"), a.RefusalChunk(2, "no"))...))

	legacy := Answer{Legacy: true, Usage: true}
	assert.Equal(t,
		`"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":""}},"finish_reason":null}],`+
			`"usage":null}`+"\n\n"+
			`"choices":[{"index":0,"delta":{"function_call":{"arguments":"{\"a\":1}"}},"finish_reason":null}],`+
			`"usage":null}`+"\n\n",
		events(legacy, legacy.CallChunks(0, 0, call)...))
}

func TestWholeAnswers(t *testing.T) {
	call := clienttool.Call{ID: "call_1", Name: "f", Arguments: `{"a":1}`}
	for name, tc := range map[string]struct {
		answer  Answer
		content ChoiceContent
		message string
	}{
		"text":    {Answer{}, ChoiceContent{Text: "hi"}, `{"role":"assistant","content":"hi","refusal":null}`},
		"nothing": {Answer{}, ChoiceContent{}, `{"role":"assistant","content":"","refusal":null}`},
		"refusal": {Answer{}, ChoiceContent{Refusal: "no"}, `{"role":"assistant","content":null,"refusal":"no"}`},
		"reasoning": {Answer{}, ChoiceContent{Text: "hi", Reasoning: "hm"},
			`{"role":"assistant","content":"hi","refusal":null,"reasoning_content":"hm"}`},
		"call": {Answer{}, ChoiceContent{Calls: []clienttool.Call{call}},
			`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function",` +
				`"function":{"name":"f","arguments":"{\"a\":1}"}}]}`},
		"both": {Answer{}, ChoiceContent{Text: "hi", Calls: []clienttool.Call{call}},
			`{"role":"assistant","content":"hi","refusal":null,"tool_calls":[{"id":"call_1","type":"function",` +
				`"function":{"name":"f","arguments":"{\"a\":1}"}}]}`},
		"legacy": {Answer{Legacy: true}, ChoiceContent{Calls: []clienttool.Call{call}},
			`{"role":"assistant","content":null,"refusal":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`},
	} {
		data, err := json.Marshal(tc.answer.Completion([]ChoiceContent{tc.content}, nil).Choices[0].Message)
		require.NoError(t, err)
		assert.JSONEq(t, tc.message, string(data), name)
	}
}

func TestLongCallsOfAChatAreManyChunks(t *testing.T) {
	long := strings.Repeat("é<", 50_000)
	for _, legacy := range []bool{false, true} {
		all := ""
		for _, c := range (Answer{Legacy: legacy}).CallChunks(0, 0, clienttool.Call{ID: "c", Name: "f", Arguments: long}) {
			data, err := json.Marshal(c)
			require.NoError(t, err)
			assert.Less(t, len(data), 6*openai.MaxDelta)
			delta := c.Choices[0].Delta
			if legacy {
				all += delta.FunctionCall.Arguments
			} else {
				all += delta.ToolCalls[0].Function.Arguments
			}
		}
		assert.Equal(t, long, all)
	}
}
