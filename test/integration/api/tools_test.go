package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// reasoner is a model that codex knows with all its abilities.
const reasoner = "gpt-5.5"

// onePixel is a PNG.
const onePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// upstream is a request to the model endpoint, with the parts that a client can
// influence.
type upstream struct {
	Input []struct {
		Type, Role, Name, Arguments string
		CallID                      string `json:"call_id"`
		Output                      string
		Content                     []struct {
			Type, Text, Detail string
			ImageURL           string `json:"image_url"`
		}
	}
	Tools []struct {
		Type, Name, Description string
		Parameters              json.RawMessage
	}
	Text struct {
		Verbosity string
		Format    *struct {
			Type   string
			Strict bool
			Schema json.RawMessage
		}
	}
	Reasoning   struct{ Effort, Summary string }
	ServiceTier string `json:"service_tier"`
}

// summary is the input in short: roles with their texts, calls with their outputs.
func (u upstream) summary() []string {
	var list []string
	for _, item := range u.Input {
		switch item.Type {
		case "function_call":
			list = append(list, item.CallID+" calls "+item.Name+item.Arguments)
		case "function_call_output":
			list = append(list, item.CallID+" gives "+item.Output)
		default:
			text := item.Role + ":"
			for _, c := range item.Content {
				text += " " + c.Text + c.ImageURL
			}
			list = append(list, text)
		}
	}
	return list
}

// complete posts a chat completion for which the endpoint plays steps.
func complete(b *bed.Bed, t *testing.T, params string, steps ...string) (status int, body string, asked upstream) {
	t.Helper()
	return completeBy(b, t, reasoner, params, steps...)
}

func completeBy(b *bed.Bed, t *testing.T, model, params string, steps ...string) (status int, body string,
	asked upstream) {
	t.Helper()
	require.NoError(t, b.Models.Script(steps...))
	before := len(b.Models.Turns())
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	status, answer, err := completion(b, ctx, model, params)
	require.NoError(t, err)
	turns := b.Models.Turns()[before:]
	require.Len(t, turns, 1, answer)
	require.NoError(t, json.Unmarshal(turns[0].Body.Raw, &asked))
	return status, answer, asked
}

// completion posts a chat completion.
func completion(b *bed.Bed, ctx context.Context, model, params string) (status int, answer string, err error) {
	body := strings.NewReader(`{"model":"` + model + `",` + params + `}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+"/v1/chat/completions", body)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.HTTP.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

const justHi = `"messages":[{"role":"user","content":"hi"}]`

// The parameters of a client arrive at the model endpoint, through the real codex, and
// the answer of the model arrives at the client.
func TestChatFeatures(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker+`models = ["`+reasoner+`"]`+"\n", "")
	b.Start()

	t.Run("tool loop", func(t *testing.T) { toolLoop(b, t, b.Client()) })

	t.Run("streamed calls", func(t *testing.T) {
		_, body, _ := complete(b, t, `"stream":true,"tools":[{"type":"function","function":{"name":"f"}}],`+justHi,
			"text I ask.", `call f {"a":1}`, `call f {"a":2}`)
		for _, want := range []string{
			`{"role":"assistant","content":""}`, `{"content":"I ask."}`,
			`"function":{"name":"f","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"call_`,
			`{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\":2}"}}]}`,
			`"delta":{},"finish_reason":"tool_calls"`, "data: [DONE]",
		} {
			at := strings.Index(body, want)
			require.GreaterOrEqual(t, at, 0, "%s is missing or out of order", want)
			body = body[at:]
		}
	})

	t.Run("unreadable for codex", func(t *testing.T) {
		for name, schema := range map[string]string{
			"bytes that are not UTF-8": `{"type":"object","properties":{},"description":"` + "\xff" + `"}`,
			"half of a surrogate pair": `{"type":"object","properties":{},"description":"\ud800"}`,
		} {
			status, body, asked := complete(b, t,
				`"tools":[{"type":"function","function":{"name":"f","parameters":`+schema+`}}],`+justHi, "text Hello.")
			assert.Equal(t, http.StatusOK, status, "%s: %s", name, body)
			assert.Len(t, asked.Tools, 1, name)
		}
	})

	t.Run("read differently by codex", func(t *testing.T) { refusedSchemas(b, t) })

	t.Run("history", func(t *testing.T) {
		_, _, asked := complete(b, t, `"messages":[
			{"role":"system","content":"s1"},{"role":"developer","content":"d","name":"bob"},{"role":"user","content":[{"type":"text","text":"u1"},{"type":"image_url","image_url":{"url":"`+onePixel+`"}},{"type":"text","text":"u2"}]},
			{"role":"assistant","content":"a","tool_calls":[{"id":"c1","type":"function","function":{"name":"mcp__x","arguments":"{\"k\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"no JSON"}}]},
			{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"two"}]},{"role":"tool","tool_call_id":"c1","content":"one"},
			{"role":"assistant","content":null,"refusal":"never"},{"role":"system","content":"s2"},{"role":"user","content":"u3"}]`, "text ok")
		assert.Equal(t, []string{
			"developer: s1", "developer: [name: bob]\n d", "user: u1 " + onePixel + " u2", "assistant: a",
			`c1 calls client_mcp__x{"k":1}`, "c2 calls gno JSON", "c2 gives two", "c1 gives one", "assistant: never",
			"developer: s2", "user: u3",
		}, asked.summary())
		assert.Empty(t, asked.Tools, "calls in the history need no tools")
	})

	t.Run("legacy functions", func(t *testing.T) {
		_, body, asked := complete(b, t, `"functions":[{"name":"f"},{"name":"g"}],"function_call":{"name":"f"},"messages":[{"role":"user","content":"u"},
			{"role":"assistant","content":null,"function_call":{"name":"g","arguments":"{}"}},{"role":"function","name":"g","content":"out"}]`, `call f {"a":1}`, `call f {"a":2}`)
		assert.Contains(t, body, `"function_call":{"name":"f","arguments":"{\"a\":1}"}`)
		assert.Contains(t, body, `"finish_reason":"function_call"`)
		assert.NotContains(t, body, `"tool_calls"`)
		require.Len(t, asked.Tools, 1)
		summary := asked.summary()
		assert.Equal(t, []string{"user: u", "call_of_message_1 calls g{}", "call_of_message_1 gives out"}, summary[:3])
		assert.Contains(t, summary[3], "developer: Your next message must be a call of the function f.")
	})

	t.Run("no tools by choice", func(t *testing.T) {
		_, _, asked := complete(b, t, `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none",`+
			justHi, "text ok")
		assert.Empty(t, asked.Tools)
	})

	t.Run("schemas", func(t *testing.T) { schemas(b, t) })
	t.Run("images", func(t *testing.T) {
		pictures(b, t, reasoner, "original") // codex makes every detail original for the models that have it
		pictures(b, t, bed.Model, "")
	})
	t.Run("formats", func(t *testing.T) { formats(b, t) })

	t.Run("settings", func(t *testing.T) {
		_, body, asked := complete(b, t, `"reasoning_effort":"high","reasoning":{"summary":"detailed"},"service_tier":"priority","verbosity":"high",`+justHi, "reasoning hm", "text ok")
		assert.Equal(t, "high", asked.Reasoning.Effort)
		assert.Equal(t, "detailed", asked.Reasoning.Summary)
		assert.Equal(t, "priority", asked.ServiceTier)
		assert.Equal(t, "high", asked.Text.Verbosity)
		assert.Contains(t, body, `"reasoning_content":"hm"`)
		_, body, asked = complete(b, t, `"service_tier":"default",`+justHi, "reasoning hm", "text ok")
		assert.Empty(t, asked.Reasoning.Summary)
		assert.Empty(t, asked.ServiceTier)
		assert.NotContains(t, body, "reasoning_content")
	})

	t.Run("refusal", func(t *testing.T) {
		_, body, _ := complete(b, t, justHi, "refusal I will not.", "usage 10 0 5 0")
		assert.Contains(t, body, `"content":null,"refusal":"The model has not given an answer`)
		_, body, _ = complete(b, t, `"stream":true,`+justHi, "refusal I will not.", "usage 10 0 5 0")
		assert.Contains(t, body, `"delta":{"refusal":"The model has not given an answer`)
		_, body, _ = complete(b, t, justHi, "usage 10 0 5 5")
		assert.Contains(t, body, `"content":"","refusal":null`)
	})

	t.Run("journal", func(t *testing.T) { assert.NotContains(t, b.UnitJournal(bed.WorkerUnit), "tool call") })

	t.Run("cut short", func(t *testing.T) {
		const tools = `"tools":[{"type":"function","function":{"name":"f"}}],`
		_, body, _ := complete(b, t, tools+justHi, "text so far", "incomplete content_filter")
		assert.Contains(t, body, `"finish_reason":"content_filter"`)
		status, body, _ := complete(b, t, `"stream":true,`+tools+justHi, `call f {"a":1}`, "drop")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, `"code":"upstream_error"`)
		assert.NotContains(t, body, "[DONE]")
	})

	t.Run("choices", func(t *testing.T) {
		require.NoError(t, b.Models.Add(modelserver.Script{Steps: []string{"text one"}},
			modelserver.Script{Steps: []string{"text two"}}))
		before := len(b.Models.Turns())
		client := b.Client()
		answer, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: reasoner, N: openai.Int(2),
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
		})
		require.NoError(t, err)
		require.Len(t, answer.Choices, 2)
		assert.ElementsMatch(t, []string{"one", "two"},
			[]string{answer.Choices[0].Message.Content, answer.Choices[1].Message.Content})
		assert.EqualValues(t, 30, answer.Usage.TotalTokens)
		assert.Len(t, b.Models.Turns()[before:], 2)
	})

	t.Run("300 tools and a long history", func(t *testing.T) {
		var tools, messages []string
		for i := range 300 {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","parameters":{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}}}`, i))
		}
		for range 1000 {
			messages = append(messages, `{"role":"user","content":"`+strings.Repeat("x y ", 512)+`"}`)
		}
		long := strings.Repeat("z ", 100_000)
		messages = append(messages, `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"tool_1","arguments":"{}"}}]}`,
			`{"role":"tool","tool_call_id":"c","content":"`+long+`"}`)
		status, body, asked := complete(b, t, `"tools":[`+strings.Join(tools, ",")+`],"messages":[`+
			strings.Join(messages, ",")+`]`, "call tool_299 {}")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, `"name":"tool_299"`)
		assert.Len(t, asked.Tools, 300)
		require.Len(t, asked.Input, 1002, "codex asks for no summary of an input longer than the model's context")
		assert.Equal(t, len(long), len(asked.Input[1001].Output))
	})
}

// toolLoop is the loop of a client: question, two calls at once, their results, answer.
func toolLoop(b *bed.Bed, t *testing.T, client openai.Client) {
	params := openai.ChatCompletionNewParams{
		Model: reasoner, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("weather?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "weather", Description: openai.String("what the sky does"), Strict: openai.Bool(true),
			Parameters: openai.FunctionParameters{"type": "object",
				"properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
				"additionalProperties": false},
		})},
	}
	require.NoError(t, b.Models.Script("reasoning hm", "text Let me see.", `call weather {"city":"Paris"}`,
		`call weather {"city":"Rome"}`, "usage 21 8 13 5"))
	answer, err := client.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	message := answer.Choices[0].Message
	assert.Equal(t, "tool_calls", answer.Choices[0].FinishReason)
	assert.Equal(t, "Let me see.", message.Content)
	bed.AssertUsage(t, answer.Usage)
	require.Len(t, message.ToolCalls, 2)

	params.Messages = append(params.Messages, message.ToParam())
	for _, call := range message.ToolCalls {
		params.Messages = append(params.Messages, openai.ToolMessage("sunny, "+call.Function.Arguments, call.ID))
	}
	require.NoError(t, b.Models.Script("text Sunny in both."))
	answer, err = client.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	assert.Equal(t, "Sunny in both.", answer.Choices[0].Message.Content)
	assert.Equal(t, "stop", answer.Choices[0].FinishReason)
	var asked upstream
	require.NoError(t, json.Unmarshal(bed.LastTurn(b.Models).Body.Raw, &asked))
	one, two := message.ToolCalls[0], message.ToolCalls[1]
	assert.Equal(t, []string{
		"user: weather?", "assistant: Let me see.",
		one.ID + ` calls weather{"city":"Paris"}`, two.ID + ` calls weather{"city":"Rome"}`,
		one.ID + ` gives sunny, {"city":"Paris"}`, two.ID + ` gives sunny, {"city":"Rome"}`,
	}, asked.summary())
	require.Len(t, asked.Tools, 1)
	assert.Equal(t, "what the sky does", asked.Tools[0].Description)
}

// refusedSchemas are schemas that the proxy refuses: codex 0.169 does not answer a
// request with one of them, and several of them block its worker for all clients.
func refusedSchemas(b *bed.Bed, t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for schema, code := range map[string]string{
		`{"type":"object","x":` + deep + `,"x":1}`:                      "duplicate_name",
		`{"type":"object","x":` + deep + `,"\u0078":1}`:                 "duplicate_name",
		`{"type":"object","title":` + deep + `}`:                        "invalid_schema",
		`{"type":"object","x":{"$serde_json::private::RawValue":"[["}}`: "invalid_schema",
		`{"type":"object","properties":{"a":{"minItems":1e0}}}`:         "invalid_function_parameters",
	} {
		var all errgroup.Group
		for range 16 {
			all.Go(func() error {
				status, answer, err := completion(b, ctx, reasoner,
					`"tools":[{"type":"function","function":{"name":"f","parameters":`+schema+`}}],`+justHi)
				if err == nil && (status != http.StatusBadRequest || !strings.Contains(answer, `"code":"`+code+`"`)) {
					err = fmt.Errorf("%d: %s", status, answer)
				}
				return err
			})
		}
		require.NoError(t, all.Wait(), schema)
	}
	_, body, _ := complete(b, t, justHi, "text Hello.")
	assert.Contains(t, body, "Hello.", "the worker answers")
}

// schemas checks that the description repeats a schema that codex would shorten.
func schemas(b *bed.Bed, t *testing.T) {
	property := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	for schema, whole := range map[string]bool{
		property(`{"type":"string","description":"d","enum":["x"]}`):                       true,
		property(`{"$ref":"#/$defs/A"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}`): true,
		property(`{"type":"string","pattern":"^x$"}`):                                      false,
		property(`{"const":1}`): false,
		property(`{"type":"string","description":"` +
			strings.Repeat("d", 5000-len(property(`{"type":"string","description":""}`))) + `"}`): true,
		property(`{"type":"string","description":"` +
			strings.Repeat("d", 5001-len(property(`{"type":"string","description":""}`))) + `"}`): false,
	} {
		_, body, asked := complete(b, t, `"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":`+schema+`}}],`+justHi, "text ok")
		require.Len(t, asked.Tools, 1, body)
		if whole {
			assert.JSONEq(t, schema, string(asked.Tools[0].Parameters))
			assert.Equal(t, "does f", asked.Tools[0].Description)
		} else {
			assert.Equal(t, "does f\n\nJSON schema of the parameters: "+schema, asked.Tools[0].Description)
		}
	}
}

// pictures checks that codex reads every image that the proxy accepts, and does not
// replace it by words.
func pictures(b *bed.Bed, t *testing.T, model, detail string) {
	var drawn [3]bytes.Buffer
	canvas := image.NewPaletted(image.Rect(0, 0, 40, 30), color.Palette{color.Black, color.White})
	require.NoError(t, png.Encode(&drawn[0], canvas))
	require.NoError(t, jpeg.Encode(&drawn[1], canvas, nil))
	require.NoError(t, gif.Encode(&drawn[2], canvas, nil))
	webp, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	require.NoError(t, err)
	var parts []string
	for kind, raw := range map[string][]byte{
		"png": drawn[0].Bytes(), "jpeg": drawn[1].Bytes(), "gif": drawn[2].Bytes(), "webp": webp,
	} {
		parts = append(parts, `{"type":"image_url","image_url":{"url":"data:image/`+kind+`;base64,`+
			base64.StdEncoding.EncodeToString(raw)+`","detail":"low"}}`)
	}
	_, _, asked := completeBy(b, t, model, `"messages":[{"role":"user","content":[`+strings.Join(parts, ",")+`]}]`,
		"text ok")
	require.Len(t, asked.Input, 1)
	require.Len(t, asked.Input[0].Content, 4)
	for _, c := range asked.Input[0].Content {
		assert.Equal(t, "input_image", c.Type, c.Text)
		assert.Equal(t, detail, c.Detail)
	}
}

func formats(b *bed.Bed, t *testing.T) {
	const strict = `{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"required":["z","a"],"additionalProperties":false}`
	schema := func(strictly, schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"answer","description":"what it is","strict":` + strictly + `,"schema":` + schema + `}},` + justHi
	}
	_, _, asked := complete(b, t, schema("true", strict), `text {"z":"1","a":"2"}`)
	require.NotNil(t, asked.Text.Format)
	assert.Equal(t, "json_schema", asked.Text.Format.Type)
	assert.True(t, asked.Text.Format.Strict)
	assert.Equal(t, `{"title":"answer","description":"what it is",`+strict[1:], string(asked.Text.Format.Schema))
	assert.Equal(t, []string{"user: hi"}, asked.summary())

	_, _, asked = complete(b, t, schema("false", `{"type":"object","properties":{"z":{"type":"string","default":"x"},`+
		`"a":{"$ref":"#/$defs/A","description":"d"}},"required":["a"],"$defs":{"A":{"enum":["p","q"]}}}`),
		`text {"z":"1","a":"p"}`)
	require.NotNil(t, asked.Text.Format, "LangChain's default is enforced")
	assert.True(t, asked.Text.Format.Strict)
	assert.Equal(t, `{"title":"answer","description":"what it is","type":"object","properties":{"z":{"type":"string"},`+
		`"a":{"type":"string","description":"d","enum":["p","q"]}},"required":["z","a"],"additionalProperties":false}`,
		string(asked.Text.Format.Schema))
	assert.Equal(t, []string{"user: hi"}, asked.summary())

	_, _, asked = complete(b, t, schema("false", `{"type":"object","properties":{"z":{"type":"string","minLength":3}}}`),
		`text {"z":"123"}`)
	require.NotNil(t, asked.Text.Format)
	assert.NotContains(t, string(asked.Text.Format.Schema), "minLength")
	assert.Contains(t, asked.summary()[1], `"minLength":3`, "what is not enforced is put in words")

	_, _, asked = complete(b, t, schema("false", `{"type":"object"}`), `text {}`)
	assert.Nil(t, asked.Text.Format)
	assert.Contains(t, asked.summary()[1], `{"type":"object"}`)

	_, body, asked := complete(b, t, `"response_format":{"type":"json_object"},`+justHi, `text {"a":1}`)
	assert.Nil(t, asked.Text.Format)
	assert.Contains(t, asked.summary()[1], "JSON object")
	assert.Contains(t, body, `"content":"{\"a\":1}"`)
}
