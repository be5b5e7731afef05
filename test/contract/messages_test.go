package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goodMessage = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[` +
	`{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},` +
	`{"type":"tool_use","id":"toolu_1","name":"f","input":{"x":1},"caller":{"type":"direct"}}],` +
	`"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,` +
	`"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":3,` +
	messageUsage + `}}`

// messageUsage is the part of a usage that its total does not have.
const messageUsage = `"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},` +
	`"output_tokens_details":null,"server_tool_use":null,"service_tier":"standard","inference_geo":null,"speed":null`

func TestMessage(t *testing.T) {
	s := compiled(t)
	answer, err := s.Message([]byte(goodMessage))
	require.NoError(t, err)
	assert.Equal(t, Answer{ID: "msg_1", Model: "m", Text: "hi", Reasoning: "hm",
		Calls: []Call{{"toolu_1", "f", `{"x":1}`}}, Finish: "tool_use", Tokens: 6}, answer)
	each(t, goodMessage, map[string]change{
		"no id":              {`"id":"msg_1"`, `"id":""`, "without id"},
		"no usage":           {`"input_tokens":1,`, ``, "input_tokens"},
		"no stop_reason":     {`"stop_reason":"tool_use"`, `"stop_reason":null`, "without stop_reason"},
		"another one":        {`"stop_reason":"tool_use"`, `"stop_reason":"end_turn"`, "with 1 calls"},
		"an unknown one":     {`"stop_reason":"tool_use"`, `"stop_reason":"stop"`, "stop_reason"},
		"a sequence":         {`"stop_sequence":null`, `"stop_sequence":"END"`, "with stop_sequence"},
		"no signature":       {`"signature":"s"`, `"signature":""`, "without signature"},
		"input that is text": {`"input":{"x":1}`, `"input":"{}"`, "an object"},
		"an empty text":      {`"text":"hi"`, `"text":""`, "without text"},
		"an unknown field":   {`"text":"hi"`, `"text":"hi","citations":null`, "citations"},
		"no caller":          {`,"caller":{"type":"direct"}`, ``, "caller"},
		"another block":      {`"type":"text"`, `"type":"output_text"`, "/content/1/type"},
	}, func(body string) error {
		_, err := s.Message([]byte(body))
		return err
	})
}

const goodMessages = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,` + messageUsage + `}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{},"caller":{"type":"direct"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"container":null},"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3,"output_tokens_details":null,"server_tool_use":null}}

event: message_stop
data: {"type":"message_stop"}

`

func TestMessageStream(t *testing.T) {
	s := compiled(t)
	answer, err := s.MessageStream(strings.NewReader(goodMessages))
	require.NoError(t, err)
	assert.Equal(t, Answer{ID: "msg_1", Model: "m", Text: "hi", Reasoning: "hm",
		Calls: []Call{{"toolu_1", "f", `{"x":1}`}}, Finish: "tool_use", Tokens: 4, Done: true}, answer)
	stop := "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
	each(t, goodMessages, map[string]change{
		"another name":         {"event: ping", "event: pong", `no event "pong"`},
		"an unknown event":     {"event: ping\ndata: {\"type\":\"ping\"", "event: p\ndata: {\"type\":\"p\"", "no event"},
		"content at first":     {`"content":[]`, `"content":[{"type":"text","text":""}]`, "no content"},
		"a block that jumps":   {`"index":1,"content_block"`, `"index":2,"content_block"`, "out of order"},
		"a block without stop": {stop, "", "out of order"},
		"a delta of another":   {`"index":1,"delta"`, `"index":0,"delta"`, "no open block"},
		"another delta":        {`"type":"text_delta","text"`, `"type":"thinking_delta","thinking"`, "of a block text"},
		"no signature":         {`"signature_delta","signature":"s"`, `"signature_delta","signature":""`, "signature"},
		"half an input":        {`{\"x\":1}`, `{\"x\":`, "an object"},
		"no stop_reason":       {`"stop_reason":"tool_use"`, `"stop_reason":null`, "without stop_reason"},
		"no usage at the end": {`,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3,` +
			`"output_tokens_details":null,"server_tool_use":null}`, ``, "usage"},
		"no end":               {"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "", "ends in message_stop"},
		"an error and the end": {"event: message_stop", anError + "event: message_stop", "after the end"},
	}, func(stream string) error {
		_, err := s.MessageStream(strings.NewReader(stream))
		return err
	})
}

const anError = "event: error\ndata: " +
	`{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"req_1"}` + "\n\n"

func TestMessageStreamThatFails(t *testing.T) {
	s := compiled(t)
	before, _, _ := strings.Cut(goodMessages, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}")
	answer, err := s.MessageStream(strings.NewReader(before + anError))
	require.NoError(t, err)
	assert.Equal(t, Answer{ID: "msg_1", Model: "m", Text: "hi", Reasoning: "hm", Tokens: 1,
		Failure: &Failure{Type: "overloaded_error", Message: "m"}}, answer)
	_, err = s.MessageStream(strings.NewReader(before))
	assert.ErrorContains(t, err, "or in an error")
}

func TestMessagesError(t *testing.T) {
	s := compiled(t)
	good := `{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"req_1"}`
	each(t, good, map[string]change{
		"OpenAI's form": {`"type":"error",`, ``, "missing property 'type'"},
		"no request":    {`,"request_id":"req_1"`, ``, "missing property 'request_id'"},
		"another type":  {`overloaded_error`, `server_error`, "/error"},
		"a wrong type":  {`overloaded_error`, `api_error`, "with status 529"},
	}, func(body string) error {
		_, err := s.MessagesError([]byte(body), 529)
		return err
	})
}
