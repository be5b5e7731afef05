package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// pixel is a PNG of one pixel.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// bothCalls is a prompt that the model answers with two parallel calls.
const bothCalls = ` [[call get_weather {"city":"Paris"}]] [[call get_weather {"city":"Rome"}]]`

var (
	citySchema = map[string]any{"type": "object",
		"properties": map[string]any{"city": map[string]any{"type": "string"},
			"population": map[string]any{"type": "integer"}},
		"required": []string{"city", "population"}, "additionalProperties": false}
)

// assertResults asserts that the model got both calls back, each with its result.
func assertResults(b *bed.Bed, t *testing.T, word string) {
	t.Helper()
	turns := bed.TurnsWith(b, word)
	require.Len(t, turns, 2)
	results := map[string]string{}
	for _, raw := range turns[1].Body.Input {
		var item struct {
			Type      string
			CallID    string `json:"call_id"`
			Arguments string
			Output    json.RawMessage
		}
		require.NoError(t, json.Unmarshal(raw, &item))
		switch item.Type {
		case "function_call":
			results[item.CallID] = bed.Sunny(t, item.Arguments)
		case "function_call_output":
			assert.Contains(t, string(item.Output), results[item.CallID])
			delete(results, item.CallID)
		}
	}
	assert.Empty(t, results, "calls without a result")
	assert.Contains(t, string(turns[1].Body.Raw), "sunny in Rome")
}

// openaiGo are the cases for openai-go that TestChat does not have.
func (c *clients) openaiGo(t *testing.T) {
	t.Run("chat tools", c.goChatTools)
	t.Run("chat structured output", c.goChatStructured)
	t.Run("chat image", c.goChatImage)
	t.Run("chat stream that fails", c.goChatStreamFails)
	t.Run("errors", c.goErrors)
}

func (c *clients) goChatTools(t *testing.T) {
	const word = "go-chat-tools"
	sdk := c.sdk()
	params := openai.ChatCompletionNewParams{
		Model:    bed.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(word + bothCalls)},
		Tools:    []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "get_weather", Parameters: bed.WeatherSchema})},
	}
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	finished := 0
	for stream.Next() {
		require.True(t, acc.AddChunk(stream.Current()))
		if _, ok := acc.JustFinishedToolCall(); ok {
			finished++
		}
	}
	require.NoError(t, stream.Err())
	answer := acc.Choices[0]
	assert.Equal(t, 2, finished)
	assert.Equal(t, "tool_calls", answer.FinishReason)
	require.Len(t, answer.Message.ToolCalls, 2)
	params.Messages = append(params.Messages, answer.Message.ToParam())
	for _, call := range answer.Message.ToolCalls {
		params.Messages = append(params.Messages, openai.ToolMessage(bed.Sunny(t, call.Function.Arguments), call.ID))
	}
	end, err := sdk.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	assert.Equal(t, "hello from the model server", end.Choices[0].Message.Content)
	assertResults(c.Bed, t, word)
}

func (c *clients) goChatStructured(t *testing.T) {
	params := openai.ChatCompletionNewParams{
		Model:    bed.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(`go-chat-schema [[text {"city":"Rome","population":2800000}]]`)},
	}
	params.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
		JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "city", Schema: citySchema,
			Strict: openai.Bool(true)},
	}
	sdk := c.sdk()
	answer, err := sdk.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	assertCity(t, answer.Choices[0].Message.Content)
	assert.Contains(t, string(bed.TurnsWith(c.Bed, "go-chat-schema")[0].Body.Text.Format), `"population"`)
}

func assertCity(t *testing.T, text string) {
	t.Helper()
	var city struct {
		City       string
		Population int
	}
	require.NoError(t, json.Unmarshal([]byte(text), &city))
	assert.Equal(t, "Rome", city.City)
	assert.Equal(t, 2800000, city.Population)
}

func (c *clients) goChatImage(t *testing.T) {
	sdk := c.sdk()
	answer, err := sdk.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: bed.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart("go-chat-image [[text a pixel]]"),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: pixel}),
		})},
	})
	require.NoError(t, err)
	assert.Equal(t, "a pixel", answer.Choices[0].Message.Content)
	assert.Contains(t, string(bed.TurnsWith(c.Bed, "go-chat-image")[0].Body.Raw), pixel)
}

func (c *clients) goChatStreamFails(t *testing.T) {
	sdk := c.sdk()
	stream := sdk.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: bed.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("[[text so far]] [[drop]]")},
	})
	text := ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	assert.Equal(t, "so far", text)
	assert.ErrorContains(t, stream.Err(), "upstream_error")
}

// goErrors asserts that each status is an *openai.Error with the fields of the envelope.
func (c *clients) goErrors(t *testing.T) {
	for _, tc := range []struct {
		status      int
		code, param string
		prompt      string
		model       string
		options     []option.RequestOption
	}{
		{status: http.StatusBadRequest, code: "unknown_parameter", param: "nonsense",
			options: []option.RequestOption{option.WithJSONSet("nonsense", 1)}},
		{status: http.StatusBadRequest, code: "invalid_value", prompt: "[[error 400]]"},
		{status: http.StatusUnauthorized, code: "invalid_api_key",
			options: []option.RequestOption{option.WithAPIKey("sk-wrong")}},
		{status: http.StatusNotFound, code: "model_not_found", param: "model", model: "gpt-none"},
		{status: http.StatusTooManyRequests, code: "rate_limited", prompt: "[[error 429]]"},
		{status: http.StatusServiceUnavailable, code: "upstream_error", prompt: "[[error 503]]"},
	} {
		t.Run(tc.code, func(t *testing.T) {
			name := bed.Model
			if tc.model != "" {
				name = tc.model
			}
			sdk := c.sdk(tc.options...)
			_, chat := sdk.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
				Model: name, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x" + tc.prompt)},
			})
			_, response := sdk.Responses.New(t.Context(), responses.ResponseNewParams{
				Model: name, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("x" + tc.prompt)},
			})
			for _, err := range []error{chat, response} {
				var e *openai.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tc.status, e.StatusCode)
				assert.Equal(t, tc.code, e.Code)
				assert.Equal(t, tc.param, e.Param)
				assert.NotEmpty(t, e.Message)
			}
		})
	}
}
