package clients

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/sashabaranov/go-openai/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goOpenAI is the client of docs/clients/go-openai.md.
func goOpenAI() *openai.Client {
	config := openai.DefaultConfig(os.Getenv("CODEX_PROXY_KEY")) // an API key of codex-proxy
	config.BaseURL = baseURL
	return openai.NewClientWithConfig(config)
}

func asking(prompt string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt}}}
}

var weather = openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
	Name: "get_weather", Description: "the weather in a city", Parameters: jsonschema.Definition{
		Type:       jsonschema.Object,
		Properties: map[string]jsonschema.Definition{"city": {Type: jsonschema.String}},
		Required:   []string{"city"}},
}}

// streamed is the answer of a stream, and the error at its end.
func streamed(ctx context.Context, client *openai.Client, r openai.ChatCompletionRequest) (
	m openai.ChatCompletionMessage, finish openai.FinishReason, usage *openai.Usage, err error) {
	stream, err := client.CreateChatCompletionStream(ctx, r)
	if err != nil {
		return m, "", nil, err
	}
	defer stream.Close()
	m.Role = openai.ChatMessageRoleAssistant
	for {
		chunk, err := stream.Recv()
		if err != nil {
			return m, finish, usage, err
		}
		if chunk.Usage != nil {
			usage = chunk.Usage
		}
		for _, c := range chunk.Choices {
			m.Content += c.Delta.Content
			m.ToolCalls = joined(m.ToolCalls, c.Delta.ToolCalls)
			if c.FinishReason != "" {
				finish = c.FinishReason
			}
		}
	}
}

// joined adds the pieces of calls, which have the number of their call.
func joined(calls, pieces []openai.ToolCall) []openai.ToolCall {
	for _, piece := range pieces {
		if piece.ID != "" {
			calls = append(calls, piece)
			continue
		}
		calls[*piece.Index].Function.Arguments += piece.Function.Arguments
	}
	return calls
}

func TestGoOpenAIWhole(t *testing.T) {
	answer, err := goOpenAI().CreateChatCompletion(t.Context(),
		asking("[[text pa]] [[text ris 🙂]] [[usage 21 8 13 5]]"))
	require.NoError(t, err)
	assert.Equal(t, "paris 🙂", answer.Choices[0].Message.Content)
	assert.Equal(t, openai.FinishReasonStop, answer.Choices[0].FinishReason)
	assert.Equal(t, 34, answer.Usage.TotalTokens)
	assert.Equal(t, 8, answer.Usage.PromptTokensDetails.CachedTokens)
	assert.NotEmpty(t, answer.Header().Get("X-Request-Id"))
}

func TestGoOpenAIStream(t *testing.T) {
	r := asking("[[text one ]] [[text two]] [[usage 21 8 13 5]]")
	r.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	m, finish, usage, err := streamed(t.Context(), goOpenAI(), r)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "one two", m.Content)
	assert.Equal(t, openai.FinishReasonStop, finish)
	require.NotNil(t, usage)
	assert.Equal(t, 34, usage.TotalTokens)
}

func TestGoOpenAITools(t *testing.T) {
	for word, ask := range map[string]func(openai.ChatCompletionRequest) openai.ChatCompletionMessage{
		"goopenai-tools-whole": func(r openai.ChatCompletionRequest) openai.ChatCompletionMessage {
			answer, err := goOpenAI().CreateChatCompletion(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, openai.FinishReasonToolCalls, answer.Choices[0].FinishReason)
			return answer.Choices[0].Message
		},
		"goopenai-tools-stream": func(r openai.ChatCompletionRequest) openai.ChatCompletionMessage {
			m, finish, _, err := streamed(t.Context(), goOpenAI(), r)
			require.Equal(t, io.EOF, err)
			assert.Equal(t, openai.FinishReasonToolCalls, finish)
			return m
		},
	} {
		t.Run(word, func(t *testing.T) {
			r := asking(word + bothCalls)
			r.Tools = []openai.Tool{weather}
			m := ask(r)
			require.Len(t, m.ToolCalls, 2)
			r.Messages = append(r.Messages, m)
			for _, call := range m.ToolCalls {
				r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool,
					ToolCallID: call.ID, Content: sunny(t, call.Function.Arguments)})
			}
			end, err := goOpenAI().CreateChatCompletion(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, greeting, end.Choices[0].Message.Content)
			assertResults(t, word)
		})
	}
}

func TestGoOpenAILegacyFunctions(t *testing.T) {
	const word = "goopenai-functions"
	r := asking(word + ` [[call get_weather {"city":"Rome"}]]`)
	r.Functions = []openai.FunctionDefinition{*weather.Function} //nolint:staticcheck // deprecated, and in use
	answer, err := goOpenAI().CreateChatCompletion(t.Context(), r)
	require.NoError(t, err)
	m := answer.Choices[0].Message
	assert.Equal(t, openai.FinishReasonFunctionCall, answer.Choices[0].FinishReason)
	require.NotNil(t, m.FunctionCall)
	r.Messages = append(r.Messages, m, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleFunction,
		Name: m.FunctionCall.Name, Content: sunny(t, m.FunctionCall.Arguments)})
	end, err := goOpenAI().CreateChatCompletion(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, greeting, end.Choices[0].Message.Content)
	assertResults(t, word)
}

func TestGoOpenAIStructuredOutput(t *testing.T) {
	schema, err := jsonschema.GenerateSchemaForType(City{})
	require.NoError(t, err)
	r := asking("goopenai-schema [[text " + romeJSON + "]]")
	r.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "city", Schema: schema, Strict: true}}
	answer, err := goOpenAI().CreateChatCompletion(t.Context(), r)
	require.NoError(t, err)
	var city City
	require.NoError(t, schema.Unmarshal(answer.Choices[0].Message.Content, &city))
	assert.Equal(t, rome, city)
	format := string(turns(t, "goopenai-schema")[0].Body.Text.Format)
	assert.Contains(t, format, `"population"`)
	assert.Contains(t, format, `"strict":true`)
}

func TestGoOpenAIImage(t *testing.T) {
	r := asking("")
	r.Messages[0].MultiContent = []openai.ChatMessagePart{
		{Type: openai.ChatMessagePartTypeText, Text: "goopenai-image [[text a pixel]]"},
		{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: pixel}},
	}
	answer, err := goOpenAI().CreateChatCompletion(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, "a pixel", answer.Choices[0].Message.Content)
	assert.Contains(t, string(turns(t, "goopenai-image")[0].Body.Raw), pixel)
}

// The end of the context interrupts the turn at the model endpoint.
func TestGoOpenAICancel(t *testing.T) {
	cut := cutting(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := goOpenAI().CreateChatCompletionStream(ctx, asking("[[text so far]] [[silence]]"))
	require.NoError(t, err)
	defer stream.Close()
	for text := ""; text == ""; {
		chunk, err := stream.Recv()
		require.NoError(t, err)
		text = chunk.Choices[0].Delta.Content
	}
	cancel()
	_, err = stream.Recv()
	require.ErrorIs(t, err, context.Canceled)
	cut()
}

// The answer ends before a stop sequence, and with it the turn.
func TestGoOpenAIStop(t *testing.T) {
	cut := cutting(t)
	script(t, []string{"text Action: look", "text \nObser", "text vation: made up", "silence"})
	r := asking("the weather?")
	r.Stop = []string{"\nObservation:"}
	m, finish, _, err := streamed(t.Context(), goOpenAI(), r)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "Action: look", m.Content)
	assert.Equal(t, openai.FinishReasonStop, finish)
	cut()
}

func TestGoOpenAIChoices(t *testing.T) {
	r := asking("[[text a choice]]")
	r.N = 2
	answer, err := goOpenAI().CreateChatCompletion(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, answer.Choices, 2)
	assert.Equal(t, "a choice", answer.Choices[1].Message.Content)
}

// A legacy completion is one turn of its prompt.
func TestGoOpenAILegacyCompletion(t *testing.T) {
	r := openai.CompletionRequest{Model: model, Prompt: "[[text one ]] [[text two]]"}
	answer, err := goOpenAI().CreateCompletion(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, "one two", answer.Choices[0].Text)
	assert.Equal(t, "stop", answer.Choices[0].FinishReason)

	stream, err := goOpenAI().CreateCompletionStream(t.Context(), r)
	require.NoError(t, err)
	defer stream.Close()
	text := ""
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for _, c := range chunk.Choices {
			text += c.Text
		}
	}
	assert.Equal(t, "one two", text)
}

func TestGoOpenAIModels(t *testing.T) {
	list, err := goOpenAI().ListModels(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, list.Models)
	one, err := goOpenAI().GetModel(t.Context(), list.Models[0].ID)
	require.NoError(t, err)
	assert.Equal(t, list.Models[0].ID, one.ID)
}

// Each failure is an *openai.APIError with the fields of the envelope.
func TestGoOpenAIErrors(t *testing.T) {
	for code, tc := range map[string]struct {
		status int
		prompt string
		change func(*openai.ChatCompletionRequest)
	}{
		"unsupported_parameter": {status: http.StatusBadRequest,
			change: func(r *openai.ChatCompletionRequest) { r.LogitBias = map[string]int{"1": 1} }},
		"model_not_found": {status: http.StatusNotFound,
			change: func(r *openai.ChatCompletionRequest) { r.Model = "gpt-none" }},
		"rate_limited":   {status: http.StatusTooManyRequests, prompt: "[[error 429]]"},
		"upstream_error": {status: http.StatusServiceUnavailable, prompt: "[[error 503]]"},
		"context_length_exceeded": {status: http.StatusBadRequest,
			prompt: "[[failed context_length_exceeded too long]]"},
	} {
		t.Run(code, func(t *testing.T) {
			r := asking("x " + tc.prompt)
			if tc.change != nil {
				tc.change(&r)
			}
			_, whole := goOpenAI().CreateChatCompletion(t.Context(), r)
			_, _, _, stream := streamed(t.Context(), goOpenAI(), r)
			for _, err := range []error{whole, stream} {
				var e *openai.APIError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tc.status, e.HTTPStatusCode)
				assert.Equal(t, code, e.Code)
				assert.NotEmpty(t, e.Message)
			}
		})
	}
}

func TestGoOpenAIWrongKey(t *testing.T) {
	config := openai.DefaultConfig("sk-wrong")
	config.BaseURL = baseURL
	_, err := openai.NewClientWithConfig(config).CreateChatCompletion(t.Context(), asking("x"))
	var e *openai.APIError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, http.StatusUnauthorized, e.HTTPStatusCode)
}

// A stream that fails ends in an error, not in io.EOF.
func TestGoOpenAIStreamThatFails(t *testing.T) {
	m, _, _, err := streamed(t.Context(), goOpenAI(), asking("[[text so far]] [[drop]]"))
	assert.Equal(t, "so far", m.Content)
	var e *openai.APIError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "upstream_error", e.Code)
}

// The library joins the comments of a stream with the error after them, and can read
// neither. Without the comments it reads the error.
func TestGoOpenAIStreamThatFailsAfterSilence(t *testing.T) {
	r := asking("[[text so far]] [[delay 1500ms]] [[drop]]")
	m, _, _, err := streamed(t.Context(), goOpenAI(), r)
	assert.Equal(t, "so far", m.Content)
	require.EqualError(t, err, "unexpected end of JSON input")

	config := openai.DefaultConfig(os.Getenv("CODEX_PROXY_KEY"))
	config.BaseURL = baseURL
	config.HTTPClient = &http.Client{Transport: noKeepalive{}}
	_, _, _, err = streamed(t.Context(), openai.NewClientWithConfig(config), r)
	var e *openai.APIError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "upstream_error", e.Code)
}

// noKeepalive asks for streams without comments.
type noKeepalive struct{}

func (noKeepalive) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-No-Keepalive", "1")
	return http.DefaultTransport.RoundTrip(r)
}

func TestGoOpenAIEmbeddings(t *testing.T) {
	_, err := goOpenAI().CreateEmbeddings(t.Context(), openai.EmbeddingRequest{Input: "x",
		Model: openai.SmallEmbedding3})
	var e *openai.APIError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, http.StatusNotFound, e.HTTPStatusCode)
	assert.Equal(t, "not_supported", e.Code)
}

func TestGoOpenAIResponses(t *testing.T) {
	client := goOpenAI()
	first, err := client.CreateResponse(t.Context(), openai.CreateResponseRequest{Model: model,
		Input: "goopenai-responses [[text one]]", Instructions: "be short"})
	require.NoError(t, err)
	assert.Equal(t, "one", first.GetOutputText())
	second, err := client.CreateResponse(t.Context(), openai.CreateResponseRequest{Model: model,
		Input: "[[text two]]", PreviousResponseID: first.ID})
	require.NoError(t, err)
	assert.Equal(t, "two", second.GetOutputText())
	assert.Len(t, turns(t, "goopenai-responses"), 2, "the second turn has the first one")

	stored, err := client.GetResponse(t.Context(), second.ID)
	require.NoError(t, err)
	assert.Equal(t, "two", stored.GetOutputText())
	items, err := client.ListResponseInputItems(t.Context(), second.ID, openai.ResponseInputItemsListOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, items.Data)
	deleted, err := client.DeleteResponse(t.Context(), second.ID)
	require.NoError(t, err)
	assert.True(t, deleted.Deleted)
	_, err = client.GetResponse(t.Context(), second.ID)
	var e *openai.APIError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "response_not_found", e.Code)
}

func TestGoOpenAIResponseTools(t *testing.T) {
	const word = "goopenai-response-tools"
	r := openai.CreateResponseRequest{Model: model, Input: word + bothCalls,
		Tools: []openai.ResponseTool{openai.NewResponseFunctionTool(*weather.Function)}}
	first, err := goOpenAI().CreateResponse(t.Context(), r)
	require.NoError(t, err)
	var results []any
	for _, output := range first.Output {
		data, err := json.Marshal(output)
		require.NoError(t, err)
		var call openai.ResponseOutputItem
		require.NoError(t, json.Unmarshal(data, &call))
		if call.Type == "function_call" {
			results = append(results, openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: call.CallID,
				Output: sunny(t, call.Arguments)})
		}
	}
	require.Len(t, results, 2)
	r.Input, r.PreviousResponseID = results, first.ID
	end, err := goOpenAI().CreateResponse(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, greeting, end.GetOutputText())
	assertResults(t, word)
}

// lastEvent reads a stream of events to its end.
func lastEvent(t *testing.T, prompt string) (
	text string, failed *openai.ResponseStreamEvent, last openai.ResponseStreamEventType) {
	t.Helper()
	stream, err := goOpenAI().CreateResponseStream(t.Context(),
		openai.CreateResponseRequest{Model: model, Input: prompt})
	require.NoError(t, err)
	defer stream.Close()
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text, failed, last
		}
		require.NoError(t, err)
		switch event.Type {
		case openai.ResponseStreamEventOutputTextDelta:
			text += event.Delta
		case openai.ResponseStreamEventError:
			failed = &event
		}
		last = event.Type
	}
}

func TestGoOpenAIResponseStream(t *testing.T) {
	text, failed, last := lastEvent(t, "[[text one ]] [[text two]]")
	assert.Equal(t, "one two", text)
	assert.Nil(t, failed)
	assert.Equal(t, openai.ResponseStreamEventCompleted, last)

	text, failed, last = lastEvent(t, "[[text so far]] [[drop]]")
	assert.Equal(t, "so far", text)
	require.NotNil(t, failed)
	assert.Equal(t, "server_error", failed.Code)
	assert.Equal(t, openai.ResponseStreamEventFailed, last)
}
