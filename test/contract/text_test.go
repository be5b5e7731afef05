package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goodText = `data: {"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"h","index":0,"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"i","index":0,"logprobs":null,"finish_reason":null}]}

data: {"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}]}

data: {"id":"c","object":"text_completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}

data: [DONE]

`

func TestTextStream(t *testing.T) {
	s := compiled(t)
	answers, err := s.TextStream(strings.NewReader(goodText), 1)
	require.NoError(t, err)
	assert.Equal(t, []Answer{{ID: "c", Model: "m", Text: "hi", Finish: "stop", Tokens: 3, Done: true}}, answers)
	each(t, goodText, map[string]change{
		"an unknown field":     {`"text":"i"`, `"texts":"i"`, "texts"},
		"another id":           {"\n\ndata: {\"id\":\"c\"", "\n\ndata: {\"id\":\"d\"", "change"},
		"another choice":       {`"text":"i","index":0`, `"text":"i","index":1`, "no choice 1"},
		"a text after the end": {`"text":"i","index":0,"logprobs":null,"finish_reason":null`, `"text":"i","index":0,"logprobs":null,"finish_reason":"stop"`, "has ended"},
		"an unknown finish":    {`"finish_reason":"stop"`, `"finish_reason":"tool_calls"`, "finish_reason"},
		"no finish":            {`"finish_reason":"stop"`, `"finish_reason":null`, "without finish_reason"},
		"usage among choices":  {`"usage":null`, `"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, "one choice"},
		"no end":               {"data: [DONE]\n\n", "", "ends in [DONE]"},
		"two ends":             {"data: [DONE]\n\n", "data: [DONE]\n\ndata: [DONE]\n\n", "after the end"},
		"a bad error":          {"data: [DONE]", `data: {"error":{"message":"m"}}`, "missing properties"},
		"an event with a name": {"data: [DONE]", "event: x\ndata: [DONE]", "no name"},
	}, func(stream string) error {
		_, err := s.TextStream(strings.NewReader(stream), 1)
		return err
	})
}

func TestTextCompletion(t *testing.T) {
	const good = `{"id":"c","object":"text_completion","created":1,"model":"m",` +
		`"choices":[{"text":"hi","index":0,"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	each(t, good, map[string]change{
		"no usage":      {`,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, ``, "with their usage"},
		"no logprobs":   {`"logprobs":null,`, ``, "logprobs"},
		"another index": {`"index":0`, `"index":1`, "index 1"},
		"no finish":     {`"finish_reason":"stop"`, `"finish_reason":null`, "finish_reason"},
	}, func(body string) error {
		_, err := compiled(t).TextCompletion([]byte(body), 1)
		return err
	})
}
