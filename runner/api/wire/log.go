package wire

import (
	"encoding/binary"
	"errors"
	"time"

	"codex-proxy/runner/logs"
)

// Line is the data of an SSE event "line"; the event's id is the offset behind it. Text or, if it is not UTF-8, Bytes
// has the line without its newline. A line may have several events: the last has Newline, unless the output ends.
type Line struct {
	Time    time.Time   `json:"time,omitzero"` // of the first byte; zero if it is not known
	Stream  logs.Stream `json:"stream"`
	Offset  int64       `json:"offset"` // of the first byte
	Text    string      `json:"text,omitempty"`
	Bytes   []byte      `json:"bytes,omitempty"` // base64
	Newline bool        `json:"newline"`
}

// LogEnd is the data of the SSE event "end" and the text message of the WebSocket: no output follows.
type LogEnd struct {
	Offset  int64   `json:"offset"`  // the size of the output
	Command Command `json:"command"` // with its outcome
}

// chunkHeader is the size of a chunk's head, in bytes: offset, time in nanoseconds since 1970 (0: not known), stream.
const chunkHeader = 8 + 8 + 1

// AppendChunk appends a binary message of the WebSocket of a log to b.
func AppendChunk(b []byte, c logs.Chunk) []byte {
	return append(AppendSpan(b, logs.Span{Time: c.Time, Stream: c.Stream, Offset: c.Offset}), c.Data...)
}

// AppendSpan appends the head of such a message to b; the bytes of the span follow.
func AppendSpan(b []byte, s logs.Span) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.Offset))
	var at int64
	if !s.Time.IsZero() {
		at = s.Time.UnixNano()
	}
	return append(binary.BigEndian.AppendUint64(b, uint64(at)), byte(s.Stream))
}

// ParseChunk is the inverse of AppendChunk. The data of the chunk is a part of message.
func ParseChunk(message []byte) (logs.Chunk, error) {
	if len(message) < chunkHeader {
		return logs.Chunk{}, errors.New("a message of the log is shorter than its head")
	}
	c := logs.Chunk{
		Offset: int64(binary.BigEndian.Uint64(message)), Stream: logs.Stream(message[16]), Data: message[chunkHeader:],
	}
	if at := int64(binary.BigEndian.Uint64(message[8:])); at != 0 {
		c.Time = time.Unix(0, at)
	}
	return c, nil
}
