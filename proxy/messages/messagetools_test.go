package messages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

const messageTools = `"tools":[{"name":"weather","description":"d","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}},` +
	`{"name":"clock","input_schema":{"type":"object"}}],`

// calling thinks, writes and calls two tools.
func calling(ctx context.Context, turn *appservertest.Turn) error {
	turn.Reasoning("let me ", "see")
	turn.Text("I look.")
	turn.Call(ctx, "weather", `{"city":"Paris"}`)
	turn.Call(ctx, "clock", `{}`)
	turn.EndResponse(apitest.SomeUsage)
	return turn.Outputs(ctx)
}

func TestMessageCallsTools(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return calling(ctx, turn)
	}})
	apitest.BothForms(t, func(t *testing.T, form string) {
		m := readMessage(t, r.Messaging(t, apitest.Greet(form+messageTools)))
		got := apitest.Received(t, requests)
		require.Len(t, got.DynamicTools, 2)
		assert.Equal(t, "weather", got.DynamicTools[0].Name)
		assert.Equal(t, "d", got.DynamicTools[0].Description)
		require.Len(t, m.Content, 3)
		assert.Equal(t, "I look.", m.Content[0].Text)
		for i, want := range []string{`{"city":"Paris"}`, `{}`} {
			call := m.Content[i+1]
			assert.Equal(t, "tool_use", call.Type)
			assert.NotEmpty(t, call.ID)
			assert.JSONEq(t, want, string(call.Input))
		}
		assert.Equal(t, "weather", m.Content[1].Name)
		assert.Equal(t, "tool_use", *m.StopReason)
		assert.InDelta(t, 7, m.Usage["output_tokens"], 0)
	})
}

// The model calls one tool, in the words of the request and in the answer.
func TestMessageCallsOneTool(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return calling(ctx, turn)
	}})
	for choice, words := range map[string]string{
		`{"type":"auto","disable_parallel_tool_use":true}`:                  "at most one function",
		`{"type":"any","disable_parallel_tool_use":true}`:                   "at most one function",
		`{"type":"tool","name":"weather","disable_parallel_tool_use":true}`: "a call of the function weather",
	} {
		apitest.BothForms(t, func(t *testing.T, form string) {
			m := readMessage(t, r.Messaging(t, apitest.Greet(form+messageTools+`"tool_choice":`+choice+`,`)))
			items := apitest.Received(t, requests).Items
			assert.Contains(t, string(items[len(items)-1]), words)
			calls := 0
			for _, b := range m.Content {
				if b.Type == "tool_use" {
					calls++
				}
			}
			assert.Equal(t, 1, calls)
		})
	}
	readMessage(t, r.Messaging(t, apitest.Greet(messageTools+`"tool_choice":{"type":"none"},`)))
	assert.Empty(t, apitest.Received(t, requests).DynamicTools)
}

// A client that asks for thinking gets it in blocks, signed; others get none.
func TestMessageThinks(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return calling(ctx, turn)
	}})
	apitest.BothForms(t, func(t *testing.T, form string) {
		m := readMessage(t, r.Messaging(t, apitest.Greet(form+messageTools+wantsThinking)))
		assert.Equal(t, "auto", apitest.Received(t, requests).Summary)
		require.Len(t, m.Content, 4)
		assert.Equal(t, "thinking", m.Content[0].Type)
		assert.Equal(t, "let me see", m.Content[0].Thinking)
		assert.Regexp(t, "^worker-[0-9a-f]{12}:demo$", m.Content[0].Signature)
		assert.Equal(t, "text", m.Content[1].Type)

		m = readMessage(t, r.Messaging(t, apitest.Greet(form+messageTools)))
		assert.Equal(t, "none", apitest.Received(t, requests).Summary)
		assert.Equal(t, "text", m.Content[0].Type)
	})
}

// repeatingMessage are the messages of a conversation that goes on after m.
func repeatingMessage(t *testing.T, m readAnswer, next string) string {
	t.Helper()
	var content []map[string]any
	for _, b := range m.Content {
		switch b.Type {
		case "thinking":
			content = append(content, map[string]any{"type": b.Type, "thinking": b.Thinking, "signature": b.Signature})
		case "redacted_thinking":
			content = append(content, map[string]any{"type": b.Type, "data": b.Data})
		case "text":
			content = append(content, map[string]any{"type": b.Type, "text": b.Text})
		}
	}
	data, err := json.Marshal(content)
	require.NoError(t, err)
	return fmt.Sprintf(`[{"role":"user","content":"one"},{"role":"assistant","content":%s},{"role":"user","content":%q}]`,
		data, next)
}

// The thinking of an account reaches no other one; the rest of the conversation does.
func TestThinkingStaysWithItsAccount(t *testing.T) {
	for name, leave := range map[string]func(f *apitest.Fleet, r *apitest.Rig){
		"refused":       func(f *apitest.Fleet, _ *apitest.Rig) { f.Refuses("a", apitest.UsedUp) },
		"between turns": func(_ *apitest.Fleet, r *apitest.Rig) { r.Pool.AccountStore().Refuse("a", time.Time{}, time.Now()) },
		"same account": func(_ *apitest.Fleet, r *apitest.Rig) {
			apitest.Sharing(r)
			require.NoError(t, r.Pool.AccountStore().Pause("a", true))
		},
		"not left": func(*apitest.Fleet, *apitest.Rig) {},
	} {
		t.Run(name, func(t *testing.T) {
			apitest.BothForms(t, func(t *testing.T, form string) {
				f := apitest.NewFleet("a", "b")
				f.Let("a", apitest.Pondering("a"))
				r := f.Rig(t, func(o *apitest.Options) { o.ThreadCache = 0 })
				first := readMessage(t, r.Messaging(t, apitest.MessageOf(form+wantsThinking, `[{"role":"user","content":"one"}]`)))
				leave(f, r)
				second := readMessage(t, r.Messaging(t, apitest.MessageOf(form+wantsThinking, repeatingMessage(t, first, "two"))))
				assert.Equal(t, "end_turn", *second.StopReason)
				got, want := f.Got("b"), apitest.WithoutReasoning
				if name == "same account" {
					want = apitest.WithReasoning
				}
				if name == "not left" {
					got, want = f.Got("a"), apitest.WithReasoning
				}
				require.NotEmpty(t, got)
				assert.Equal(t, want, apitest.History(got[len(got)-1]))
			})
		})
	}
}

// A conversation continues on its thread, with thinking and without.
func TestAContinuedMessageKeepsItsThread(t *testing.T) {
	for _, extra := range []string{"", wantsThinking} {
		apitest.BothForms(t, func(t *testing.T, form string) {
			k := &apitest.Talker{}
			r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				turn.Reasoning("hm")
				return k.Answer(ctx, turn)
			}}, apitest.WithThreads(4))
			first := readMessage(t, r.Messaging(t, apitest.MessageOf(form+extra, `[{"role":"user","content":"one"}]`)))
			readMessage(t, r.Messaging(t, apitest.MessageOf(form+extra, repeatingMessage(t, first, "two"))))
			require.Len(t, k.Threads, 2)
			assert.Equal(t, k.Threads[0], k.Threads[1])
		})
	}
}

// Calls and results that do not belong together are the client's mistake.
func TestMessagesCheckCalls(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{})
	for _, messages := range []string{
		`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}]`,
		`[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":"q"}]`,
		`[]`,
		`[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}]`,
	} {
		resp := r.Messaging(t, apitest.MessageOf("", messages))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, messages)
		kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, "invalid_request_error", kind)
		assert.Contains(t, message, "messages")
	}
}
