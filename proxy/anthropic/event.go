package anthropic

import (
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// Types of events.
// Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming.
const (
	EventMessageStart = "message_start"
	EventBlockStart   = "content_block_start"
	EventBlockDelta   = "content_block_delta"
	EventBlockStop    = "content_block_stop"
	EventMessageDelta = "message_delta"
	EventMessageStop  = "message_stop"
	EventPing         = "ping"
	EventError        = "error"
)

// Event is one event of a stream. Type determines the fields that are set.
type Event struct {
	Type    string
	Index   int       // of the block
	Delta   deltaKind // of a content_block_delta
	Text    string    // of it
	Block   *Block    // of a content_block_start
	Message *Message  // of a message_start
	Stop    *Stop     // of a message_delta
	Usage   *Usage    // of a message_delta
	// Safeguards is a field of a message_delta.
	Safeguards []SafeguardResult
}

// deltaKind is the kind of a delta: its JSON up to its text, behind the index of its block.
type deltaKind string

const (
	deltaText      deltaKind = `,"delta":{"type":"text_delta","text":`
	deltaThinking  deltaKind = `,"delta":{"type":"thinking_delta","thinking":`
	deltaSignature deltaKind = `,"delta":{"type":"signature_delta","signature":`
	deltaInput     deltaKind = `,"delta":{"type":"input_json_delta","partial_json":`
)

// EventWriter writes the events of one stream as server-sent events. One goroutine may use it.
type EventWriter struct{ buffer []byte }

// Write writes events in one Write, which no flush splits.
func (w *EventWriter) Write(to io.Writer, events []Event) (err error) {
	w.buffer = w.buffer[:0]
	for i := range events {
		if w.buffer, err = events[i].append(w.buffer); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err = to.Write(w.buffer)
	if cap(w.buffer) > longBuffer { // most are far shorter
		w.buffer = nil
	}
	return err
}

// longBuffer is the size from which a buffer is not kept for the next events.
const longBuffer = 64 << 10

// append appends the event. The deltas, by far the most events, are encoded by hand.
func (e *Event) append(b []byte) ([]byte, error) {
	if e.Type == EventBlockDelta {
		return e.appendDelta(b), nil
	}
	b = append(append(append(b, "event: "...), e.Type...), "\ndata: "...)
	switch e.Type {
	case EventMessageStop, EventPing:
		return append(append(append(b, `{"type":"`...), e.Type...), "\"}\n\n"...), nil
	case EventBlockStop:
		b = append(b, `{"type":"content_block_stop","index":`...)
		return append(strconv.AppendInt(b, int64(e.Index), 10), "}\n\n"...), nil
	}
	body, err := openai.Encode(e.body())
	return append(append(b, body...), "\n\n"...), err
}

func (e *Event) appendDelta(b []byte) []byte {
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = append(strconv.AppendInt(b, int64(e.Index), 10), e.Delta...)
	b, _ = jsontext.AppendQuote(b, e.Text) // its error only reports bytes that are not UTF-8, which it has replaced
	return append(b, "}}\n\n"...)
}

// body is the JSON of the events that are encoded by reflection.
func (e *Event) body() any {
	switch e.Type {
	case EventMessageStart:
		return struct {
			Type    string   `json:"type"`
			Message *Message `json:"message"`
		}{e.Type, e.Message}
	case EventBlockStart:
		return struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
			Block *Block `json:"content_block"`
		}{e.Type, e.Index, e.Block}
	default: // EventMessageDelta
		return struct {
			Type  string     `json:"type"`
			Delta endOfDelta `json:"delta"`
			Usage *Usage     `json:"usage"`
		}{e.Type, endOfDelta{e.Stop.reason(), e.Stop.sequence(), e.Stop.details(), nil, e.Safeguards}, e.Usage}
	}
}

// endOfDelta is the delta of a message_delta.
type endOfDelta struct {
	StopReason   *string      `json:"stop_reason"`
	StopSequence *string      `json:"stop_sequence"`
	StopDetails  *StopDetails `json:"stop_details"`
	Container    *struct{}    `json:"container"` // always null
	// Safeguards answer the request's safeguards; omitted without any.
	Safeguards []SafeguardResult `json:"safeguard_results,omitempty"`
}

// WriteError writes the event of an error, after which a stream ends.
func WriteError(to io.Writer, e Error) error {
	body, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	event := append([]byte("event: "+EventError+"\ndata: "), body...)
	_, err = to.Write(append(event, "\n\n"...))
	return err
}
