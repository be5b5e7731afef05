package chat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/api/apitest"
)

var callID = regexp.MustCompile(`"call_[^"]+"`)

// message is the first choice of a whole answer, without the ids of its calls.
func message(t *testing.T, resp *http.Response) (message, finish string) {
	t.Helper()
	body := apitest.Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	var whole struct {
		Choices []struct {
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &whole), body)
	require.Len(t, whole.Choices, 1)
	return callID.ReplaceAllString(string(whole.Choices[0].Message), `"call"`), whole.Choices[0].FinishReason
}

func TestToolCalls(t *testing.T) {
	requests := make(chan appservertest.Request, 4)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return apitest.CallingTools(ctx, turn)
	}})
	const paris = `{"id":"call","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}`
	const rome = `{"id":"call","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}`
	const said = `{"role":"assistant","content":"I will ask.","refusal":null,`

	got, finish := message(t, r.Chatting(t, apitest.Hello(apitest.WeatherTools)))
	assert.JSONEq(t, said+`"tool_calls":[`+paris+`,`+rome+`]}`, got,
		"the call of what is not there is codex's to answer")
	assert.Equal(t, "tool_calls", finish)
	request := apitest.Received(t, requests)
	require.Len(t, request.DynamicTools, 2)
	assert.Equal(t, "weather", request.DynamicTools[0].Name)
	assert.Equal(t, "what the sky does", request.DynamicTools[0].Description)
	assert.JSONEq(t, `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`,
		string(request.DynamicTools[0].InputSchema))
	assert.JSONEq(t, `{"type":"object","properties":{}}`, string(request.DynamicTools[1].InputSchema))

	got, _ = message(t, r.Chatting(t, apitest.Hello(apitest.WeatherTools+`"parallel_tool_calls":false,`)))
	assert.JSONEq(t, said+`"tool_calls":[`+paris+`]}`, got)
	request = apitest.Received(t, requests)
	assert.Contains(t, string(request.Items[len(request.Items)-1]), "at most one function")

	got, finish = message(t,
		r.Chatting(t, apitest.Hello(`"functions":[{"name":"weather"}],"function_call":{"name":"weather"},`)))
	assert.JSONEq(t, said+`"function_call":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}`, got)
	assert.Equal(t, "function_call", finish)
	request = apitest.Received(t, requests)
	assert.Contains(t, string(request.Items[len(request.Items)-1]), "must be a call of the function weather")
}

// What is called is told before the worker has answered the goodbye to the turn.
func TestToolCallsDoNotWaitForTheGoodbye(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.CallingTools, Faults: map[string]appservertest.Fault{
		"turn/interrupt": appservertest.Silent, "thread/unsubscribe": appservertest.Silent,
	}})
	closing := func(answered func()) {
		inflight := 0
		for n := 0; n < 5 && inflight == 0; n++ { // the end of the wait may be nearer than this goroutine's turn
			answered()
			inflight = r.Pool.Inflight()
			apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
		}
		assert.Equal(t, 1, inflight)
	}
	closing(func() {
		assert.Contains(t, apitest.Text(t, r.Chatting(t, apitest.Hello(apitest.WeatherTools))), "Rome")
	})
	closing(func() {
		stream := bufio.NewReader(r.Chatting(t, apitest.Hello(apitest.Streaming+apitest.WeatherTools)).Body)
		for apitest.Frame(t, stream) != "data: [DONE]" {
		}
	})
}

func TestStreamedToolCalls(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Call(ctx, "weather", `{"city":"Paris"}`)
		turn.Call(ctx, "time", `{}`)
		turn.EndResponse(apitest.SomeUsage)
		return turn.Outputs(ctx)
	}})
	chunk := func(delta, finish string) string {
		return `{"id":"ID","object":"chat.completion.chunk","created":0,"model":"demo","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	got := stable(t, strings.Join(apitest.Frames(t, r.Chatting(t, apitest.Hello(apitest.Streaming+apitest.WeatherTools))), "\n"))
	assert.Equal(t, strings.Join([]string{
		chunk(`{"role":"assistant","content":null}`, "null"),
		chunk(`{"tool_calls":[{"index":0,"id":"call","type":"function","function":{"name":"weather","arguments":""}}]}`, "null"),
		chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Paris\"}"}}]}`, "null"),
		chunk(`{"tool_calls":[{"index":1,"id":"call","type":"function","function":{"name":"time","arguments":""}}]}`, "null"),
		chunk(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`, "null"),
		chunk(`{}`, `"tool_calls"`),
		"[DONE]",
	}, "\n"), callID.ReplaceAllString(got, `"call"`))

	got = strings.Join(apitest.Frames(t,
		r.Chatting(t, apitest.Hello(apitest.Streaming+`"functions":[{"name":"weather"},{"name":"time"}],`))), "\n")
	assert.Contains(t, got, `"delta":{"function_call":{"name":"weather","arguments":""}}`)
	assert.Contains(t, got, `"delta":{"function_call":{"arguments":"{\"city\":\"Paris\"}"}}`)
	assert.Contains(t, got, `"finish_reason":"function_call"`)
	assert.NotContains(t, got, `"time"`)
}

// A turn may have several messages, and an answer has one.
func TestSeveralMessagesAreOneAnswer(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text("I will ", "look.")
		turn.Text("It is ", "five.")
		return nil
	}})
	whole, _ := message(t, r.Chatting(t, apitest.Hello("")))
	assert.JSONEq(t, `{"role":"assistant","content":"I will look.\n\nIt is five.","refusal":null}`, whole)
	streamed := regexp.MustCompile(`"delta":{"content":"([^"]*)"`).FindAllStringSubmatch(strings.Join(apitest.Frames(t,
		r.Chatting(t, apitest.Hello(apitest.Streaming))), "\n"), -1)
	require.Len(t, streamed, 4)
	assert.Equal(t, `\n\nIt is `, streamed[2][1])
	assert.Equal(t, "five.", streamed[3][1])
}

func TestReasoningIsSentWhereAsked(t *testing.T) {
	requests := make(chan appservertest.Request, 4)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("let me ", "think")
		turn.Reasoning("again")
		turn.Text("hi")
		return nil
	}})
	got, _ := message(t, r.Chatting(t, apitest.Hello("")))
	assert.JSONEq(t, `{"role":"assistant","content":"hi","refusal":null}`, got)
	assert.Empty(t, apitest.Received(t, requests).Summary)

	const ask = `"reasoning":{"effort":"high","summary":"detailed"},`
	got, _ = message(t, r.Chatting(t, apitest.Hello(ask)))
	assert.JSONEq(t, `{"role":"assistant","content":"hi","refusal":null,"reasoning_content":"let me think\n\nagain"}`, got)
	request := apitest.Received(t, requests)
	assert.Equal(t, "detailed", request.Summary)
	assert.Equal(t, "high", request.Effort)

	streamed := apitest.Frames(t, r.Chatting(t, apitest.Hello(apitest.Streaming+ask)))
	require.Len(t, streamed, 7)
	for i, want := range []string{`"role":"assistant","content":""`, `{"reasoning_content":"let me "}`,
		`{"reasoning_content":"think"}`, `{"reasoning_content":"\n\nagain"}`, `{"content":"hi"}`} {
		assert.Contains(t, streamed[i], want)
	}
}

// A refusal is not passed on by codex; what is left is an answer that cost
// tokens and holds nothing.
func TestRefusals(t *testing.T) {
	handler := func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("")
		turn.EndResponse(apitest.SomeUsage)
		return nil
	}
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	got, finish := message(t, r.Chatting(t, apitest.Hello("")))
	assert.JSONEq(t, `{"role":"assistant","content":null,"refusal":"`+answer.Withheld+`"}`, got)
	assert.Equal(t, "stop", finish)
	streamed := apitest.Frames(t, r.Chatting(t, apitest.Hello(apitest.Streaming)))
	require.Len(t, streamed, 4)
	assert.Contains(t, streamed[0], `"content":null`)
	assert.Contains(t, streamed[1], `{"refusal":"`+answer.Withheld+`"}`)
	assert.Contains(t, streamed[2], `"finish_reason":"stop"`)
}

func TestWhatATurnIsAskedFor(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return nil
	}})
	format := func(strict string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":` + strict +
			`,"schema":{"type":"object"}}},`
	}
	for name, tc := range map[string]struct {
		params string
		check  func(t *testing.T, r appservertest.Request, last string)
	}{
		"nothing": {"", func(t *testing.T, r appservertest.Request, last string) {
			assert.Empty(t, r.ServiceTier)
			assert.Empty(t, r.Config)
			assert.Empty(t, r.OutputSchema)
			assert.Contains(t, last, "hello")
		}},
		"tier": {`"service_tier":"flex",`,
			func(t *testing.T, r appservertest.Request, _ string) { assert.Equal(t, "flex", r.ServiceTier) }},
		"verbosity": {`"verbosity":"high",`, func(t *testing.T, r appservertest.Request, _ string) {
			assert.Equal(t, map[string]any{"model_verbosity": "high"}, r.Config)
		}},
		"strict": {format("true"), func(t *testing.T, r appservertest.Request, last string) {
			assert.JSONEq(t, `{"title":"n","type":"object"}`, string(r.OutputSchema))
			assert.Contains(t, last, "hello")
		}},
		"not strict": {format("false"), func(t *testing.T, r appservertest.Request, last string) {
			assert.Empty(t, r.OutputSchema)
			assert.Contains(t, last, `{\"type\":\"object\"}`)
			assert.Contains(t, last, `"developer"`)
		}},
		"any object": {`"response_format":{"type":"json_object"},`,
			func(t *testing.T, _ appservertest.Request, last string) {
				assert.Contains(t, last, "one valid JSON object")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello(tc.params)).StatusCode)
			request := apitest.Received(t, requests)
			tc.check(t, request, string(request.Items[len(request.Items)-1]))
		})
	}
}
