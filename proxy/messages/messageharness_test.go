package messages_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/api/apitest"
)

// wantsThinking asks for blocks of thinking.
const wantsThinking = `"thinking":{"type":"enabled","budget_tokens":1024},`

// block is a block of a message, or of an event that begins one.
type block struct {
	Type, Text, Thinking, Signature, Data string
	ID, Name                              string
	Input                                 json.RawMessage
}

// readAnswer is a message, whole or joined from the events of a stream.
type readAnswer struct {
	ID, Type, Role, Model string
	Content               []block
	StopReason            *string                       `json:"stop_reason"`
	StopSequence          *string                       `json:"stop_sequence"`
	StopDetails           *struct{ Explanation string } `json:"stop_details"`
	Usage                 map[string]any
}

// texts are the texts of the blocks.
func (m readAnswer) texts() (list []string) {
	for _, b := range m.Content {
		if b.Type == "text" {
			list = append(list, b.Text)
		}
	}
	return list
}

// sentEvent is an event of a stream.
type sentEvent struct{ name, data string }

// sentEvents reads the rest of a stream.
func sentEvents(t *testing.T, resp *http.Response) (list []sentEvent) {
	t.Helper()
	for frame := range strings.SplitSeq(apitest.Text(t, resp), "\n\n") {
		if frame == "" {
			continue
		}
		list = append(list, eventOf(t, frame))
	}
	return list
}

// eventOf is the event of a frame.
func eventOf(t *testing.T, frame string) sentEvent {
	t.Helper()
	name, data, ok := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
	require.True(t, ok && strings.HasPrefix(frame, "event: "), "%q", frame)
	var typed struct{ Type string }
	require.NoError(t, json.Unmarshal([]byte(data), &typed), data)
	require.Equal(t, name, typed.Type)
	return sentEvent{name, data}
}

// readMessage reads an answer. It checks the order of the events of a stream.
func readMessage(t *testing.T, resp *http.Response) (m readAnswer) {
	t.Helper()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body := apitest.Text(t, resp)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		require.NoError(t, json.Unmarshal([]byte(body), &m))
		return m
	}
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return joined(t, sentEvents(t, resp))
}

// joined is the message of a whole stream.
func joined(t *testing.T, list []sentEvent) readAnswer {
	t.Helper()
	j := joiner{t: t}
	for _, e := range list {
		j.read(e)
	}
	require.True(t, j.stopped, "%v", list)
	return j.message
}

// joiner joins the events of a stream, and checks their order.
type joiner struct {
	t       *testing.T
	message readAnswer
	open    bool   // a block is open
	partial string // the input of the open call
	stopped bool
}

func (j *joiner) read(e sentEvent) {
	j.t.Helper()
	if e.name == "ping" {
		return
	}
	var got struct {
		Index   *int
		Message readAnswer
		Block   block `json:"content_block"`
		Delta   struct {
			Type, Text, Thinking, Signature string
			Partial                         string                        `json:"partial_json"`
			StopReason                      *string                       `json:"stop_reason"`
			StopSequence                    *string                       `json:"stop_sequence"`
			StopDetails                     *struct{ Explanation string } `json:"stop_details"`
		}
		Usage map[string]any
	}
	require.NoError(j.t, json.Unmarshal([]byte(e.data), &got))
	require.False(j.t, j.stopped, e)
	require.Equal(j.t, j.message.ID == "", e.name == "message_start", e)
	blocks := len(j.message.Content)
	if got.Index != nil {
		require.Equal(j.t, e.name == "content_block_start", !j.open, e)
		if e.name != "content_block_start" {
			blocks--
		}
		require.Equal(j.t, blocks, *got.Index)
	}
	switch e.name {
	case "message_start":
		j.message = got.Message
		assert.Empty(j.t, j.message.Content)
		assert.Nil(j.t, j.message.StopReason)
	case "content_block_start":
		j.open, j.partial = true, ""
		j.message.Content = append(j.message.Content, got.Block)
	case "content_block_delta":
		b := &j.message.Content[blocks]
		require.Equal(j.t, map[string]string{"text_delta": "text", "thinking_delta": "thinking",
			"signature_delta": "thinking", "input_json_delta": "tool_use"}[got.Delta.Type], b.Type)
		b.Text, b.Thinking, b.Signature = b.Text+got.Delta.Text, b.Thinking+got.Delta.Thinking,
			b.Signature+got.Delta.Signature
		j.partial += got.Delta.Partial
	case "content_block_stop":
		j.open = false
		if b := &j.message.Content[blocks]; b.Type == "tool_use" && j.partial != "" {
			b.Input = json.RawMessage(j.partial)
		}
	case "message_delta":
		require.False(j.t, j.open)
		j.message.StopReason, j.message.StopSequence = got.Delta.StopReason, got.Delta.StopSequence
		j.message.StopDetails, j.message.Usage = got.Delta.StopDetails, got.Usage
	case "message_stop":
		j.stopped = true
		require.NotNil(j.t, j.message.StopReason)
	default:
		require.FailNow(j.t, "an unknown event", e)
	}
}
