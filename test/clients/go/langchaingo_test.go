package clients

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/tools"
)

// langchain is the model of docs/clients/langchaingo.md.
func langchain(t *testing.T, more ...openai.Option) *openai.LLM {
	t.Helper()
	options := []openai.Option{
		openai.WithBaseURL(baseURL),
		openai.WithToken(os.Getenv("CODEX_PROXY_KEY")), // an API key of codex-proxy
		openai.WithModel(model),
	}
	llm, err := openai.New(append(options, more...)...)
	require.NoError(t, err)
	return llm
}

func human(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

// weatherTool is a tool of an agent. It keeps its inputs.
type weatherTool struct{ inputs []string }

var _ tools.Tool = (*weatherTool)(nil)

func (*weatherTool) Name() string        { return "get_weather" }
func (*weatherTool) Description() string { return "the weather in a city" }

func (w *weatherTool) Call(_ context.Context, input string) (string, error) {
	w.inputs = append(w.inputs, input)
	return "sunny in " + input, nil
}

// The agents that work by text end a step with a stop sequence: the model must not
// invent the observation. The tool's result is in the next turn.
func TestLangchaingoTextAgents(t *testing.T) {
	for name, tc := range map[string]struct {
		agent func(llms.Model, []tools.Tool) agents.Agent
		end   string
	}{
		"one shot": {func(m llms.Model, tools []tools.Tool) agents.Agent { return agents.NewOneShotAgent(m, tools) },
			"Final Answer: it is sunny"},
		"conversational": {func(m llms.Model, tools []tools.Tool) agents.Agent {
			return agents.NewConversationalAgent(m, tools)
		}, "AI: it is sunny"},
	} {
		t.Run(name, func(t *testing.T) {
			cut := cutting(t)
			script(t, []string{"text Thought: I look.\nAction: get_weather\nAction Input: Rome", "text \nObser",
				"text vation: rain, which is made up", "silence"}, []string{"text " + tc.end})
			tool := &weatherTool{}
			executor := agents.NewExecutor(tc.agent(langchain(t), []tools.Tool{tool}),
				agents.WithMemory(memory.NewConversationBuffer()))
			word := "langchaingo-" + strings.ReplaceAll(name, " ", "-")
			answer, err := chains.Run(t.Context(), executor, word+": the weather in Rome?")
			require.NoError(t, err)
			assert.Equal(t, "it is sunny", strings.TrimSpace(answer))
			assert.Equal(t, []string{"Rome"}, tool.inputs)
			cut()
			all := turns(t, word)
			require.Len(t, all, 2)
			assert.Contains(t, string(all[1].Body.Raw), `Observation: sunny in Rome`)
			assert.NotContains(t, string(all[1].Body.Raw), "made up")
		})
	}
}

// The agent that works with functions sends its calls and their results as messages.
func TestLangchaingoFunctionsAgent(t *testing.T) {
	script(t, []string{`call get_weather {"__arg1":"Paris"}`, `call get_weather {"__arg1":"Rome"}`},
		[]string{"text sunny in both"})
	tool := &weatherTool{}
	agent := agents.NewOpenAIFunctionsAgent(langchain(t), []tools.Tool{tool})
	answer, err := chains.Run(t.Context(), agents.NewExecutor(agent), "langchaingo-functions: the weather?")
	require.NoError(t, err)
	assert.Equal(t, "sunny in both", answer)
	assert.Equal(t, []string{"Paris", "Rome"}, tool.inputs)
	all := turns(t, "langchaingo-functions")
	require.Len(t, all, 2)
	assert.Contains(t, string(all[1].Body.Raw), "sunny in Paris")
	assert.Contains(t, string(all[1].Body.Raw), "sunny in Rome")
}

func TestLangchaingoWhole(t *testing.T) {
	answer, err := langchain(t).GenerateContent(t.Context(), []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, "be short"),
		llms.TextParts(llms.ChatMessageTypeHuman, "langchaingo-whole [[text pa]] [[text ris]] [[usage 21 8 13 5]]"),
	}, llms.WithMaxTokens(100), llms.WithTemperature(0.5))
	require.NoError(t, err)
	assert.Equal(t, "paris", answer.Choices[0].Content)
	assert.Equal(t, "stop", answer.Choices[0].StopReason)
	assert.Equal(t, 34, answer.Choices[0].GenerationInfo["TotalTokens"])
	assert.Contains(t, string(turns(t, "langchaingo-whole")[0].Body.Raw), "be short")
}

func TestLangchaingoStream(t *testing.T) {
	var chunks []string
	answer, err := langchain(t).GenerateContent(t.Context(), human("[[text one ]] [[text two]] [[usage 21 8 13 5]]"),
		llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			if len(chunk) > 0 {
				chunks = append(chunks, string(chunk))
			}
			return nil
		}))
	require.NoError(t, err)
	assert.Equal(t, []string{"one ", "two"}, chunks)
	assert.Equal(t, "one two", answer.Choices[0].Content)
	assert.Equal(t, "stop", answer.Choices[0].StopReason)
	assert.Equal(t, 34, answer.Choices[0].GenerationInfo["TotalTokens"])
}

func TestLangchaingoTools(t *testing.T) {
	for word, options := range map[string][]llms.CallOption{
		"langchaingo-tools-whole":  nil,
		"langchaingo-tools-stream": {llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })},
	} {
		t.Run(word, func(t *testing.T) {
			options := append(options, llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{
				Name: "get_weather", Parameters: map[string]any{"type": "object",
					"properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
			}}}))
			messages := human(word + bothCalls)
			answer, err := langchain(t).GenerateContent(t.Context(), messages, options...)
			require.NoError(t, err)
			require.Len(t, answer.Choices[0].ToolCalls, 2)
			for _, call := range answer.Choices[0].ToolCalls {
				messages = append(messages,
					llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}},
					llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{
						ToolCallID: call.ID, Name: call.FunctionCall.Name, Content: sunny(t, call.FunctionCall.Arguments)}}})
			}
			end, err := langchain(t).GenerateContent(t.Context(), messages, options...)
			require.NoError(t, err)
			assert.Equal(t, greeting, end.Choices[0].Content)
			assertResults(t, word)
		})
	}
}

// A line of langchaingo's stream may have 64 KiB, and of aiohttp's 128: the arguments of a call come in pieces.
func TestLangchaingoLongArguments(t *testing.T) {
	city := strings.Repeat("Rome", 50_000)
	script(t, []string{`call get_weather {"city":"` + city + `"}`})
	answer, err := langchain(t).GenerateContent(t.Context(), human("langchaingo-long-arguments"),
		llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }),
		llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{
			Name: "get_weather", Parameters: map[string]any{"type": "object",
				"properties": map[string]any{"city": map[string]any{"type": "string"}}},
		}}}))
	require.NoError(t, err)
	require.Len(t, answer.Choices[0].ToolCalls, 1)
	assert.JSONEq(t, `{"city":"`+city+`"}`, answer.Choices[0].ToolCalls[0].FunctionCall.Arguments)
}

func TestLangchaingoStructuredOutput(t *testing.T) {
	format := &openai.ResponseFormat{Type: "json_schema", JSONSchema: &openai.ResponseFormatJSONSchema{
		Name: "city", Strict: true, Schema: &openai.ResponseFormatJSONSchemaProperty{Type: "object",
			Properties: map[string]*openai.ResponseFormatJSONSchemaProperty{
				"city": {Type: "string"}, "population": {Type: "integer"}},
			Required: []string{"city", "population"}},
	}}
	answer, err := langchain(t, openai.WithResponseFormat(format)).GenerateContent(t.Context(),
		human("langchaingo-schema [[text "+romeJSON+"]]"))
	require.NoError(t, err)
	assert.JSONEq(t, romeJSON, answer.Choices[0].Content)
	assert.Contains(t, string(turns(t, "langchaingo-schema")[0].Body.Text.Format), `"population"`)

	answer, err = langchain(t).GenerateContent(t.Context(), human("langchaingo-json [[text "+romeJSON+"]]"),
		llms.WithJSONMode())
	require.NoError(t, err)
	assert.JSONEq(t, romeJSON, answer.Choices[0].Content)
}

func TestLangchaingoImage(t *testing.T) {
	image := func(part llms.ContentPart) (*llms.ContentResponse, error) {
		return langchain(t).GenerateContent(t.Context(), []llms.MessageContent{{Role: llms.ChatMessageTypeHuman,
			Parts: []llms.ContentPart{llms.TextPart("langchaingo-image [[text a pixel]]"), part}}})
	}
	answer, err := image(llms.ImageURLPart(pixel))
	require.NoError(t, err)
	assert.Equal(t, "a pixel", answer.Choices[0].Content)
	assert.Contains(t, string(turns(t, "langchaingo-image")[0].Body.Raw), pixel)

	_, err = image(llms.BinaryPart("image/png", []byte("png")))
	assert.ErrorContains(t, err, `400: messages[0].content[1]: a part of type "binary" is not supported`)
}

// The end of the context interrupts the turn at the model endpoint.
func TestLangchaingoCancel(t *testing.T) {
	cut := cutting(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer, err := langchain(t).GenerateContent(ctx, human("[[text so far]] [[silence]]"),
		llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			if len(chunk) > 0 {
				cancel()
			}
			return nil
		}))
	if err == nil { // the library returns what there is, or the error of its reader
		assert.Empty(t, answer.Choices[0].StopReason)
	}
	cut()
}

// The library has no class of error for a call. Its MapError finds one by words.
func TestLangchaingoErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt  string
		options []openai.Option
		code    llms.ErrorCode
	}{
		"wrong key":     {"", []openai.Option{openai.WithToken("sk-wrong")}, llms.ErrCodeAuthentication},
		"unknown model": {"", []openai.Option{openai.WithModel("gpt-none")}, llms.ErrCodeResourceNotFound},
		"rate":          {"[[error 429]]", nil, llms.ErrCodeRateLimit},
		"upstream":      {"[[error 503]]", nil, llms.ErrCodeProviderUnavailable},
		"context":       {"[[failed context_length_exceeded too long]]", nil, llms.ErrCodeTokenLimit},
		"refused":       {"[[error 400]]", nil, llms.ErrCodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := langchain(t, tc.options...).GenerateContent(t.Context(), human("x "+tc.prompt))
			require.Error(t, err)
			var e *llms.Error
			require.ErrorAs(t, openai.MapError(err), &e)
			assert.Equal(t, tc.code, e.Code)
		})
	}
}

func TestLangchaingoEmbeddings(t *testing.T) {
	_, err := langchain(t).CreateEmbedding(t.Context(), []string{"x"})
	assert.ErrorContains(t, err, "404")
}

// The library skips the error in a stream: the cut answer has no StopReason.
func TestLangchaingoStreamThatFails(t *testing.T) {
	answer, err := langchain(t).GenerateContent(t.Context(), human("[[text so far]] [[drop]]"),
		llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
	require.NoError(t, err)
	assert.Equal(t, "so far", answer.Choices[0].Content)
	assert.Empty(t, answer.Choices[0].StopReason)
}
