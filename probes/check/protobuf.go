package check

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A message of gRPC has a flag for compression and its length in four bytes.
const frameHeader = 5

func frame(message []byte) []byte {
	framed := make([]byte, frameHeader, frameHeader+len(message))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	return append(framed, message...)
}

// unframe returns the one message of a unary answer.
func unframe(body []byte) ([]byte, error) {
	switch {
	case len(body) < frameHeader:
		return nil, fmt.Errorf("the gRPC answer has %d bytes and no message", len(body))
	case body[0] != 0:
		return nil, errors.New("the gRPC answer is compressed although the request allows no compression")
	case uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-frameHeader):
		return nil, fmt.Errorf("the gRPC answer has %d bytes, and its length is %d",
			len(body)-frameHeader, binary.BigEndian.Uint32(body[1:]))
	}
	return body[frameHeader:], nil
}

// The wire types of protobuf that exist (protobuf.dev, encoding).
const (
	varint = 0
	fixed8 = 1
	sized  = 2
	fixed4 = 5
)

// stringField is a message with text, or a message of its own, as a field (1 to 15), and nothing if text is empty.
func stringField(number byte, text string) []byte {
	if text == "" {
		return nil
	}
	message := binary.AppendUvarint([]byte{number<<3 | sized}, uint64(len(text)))
	return append(message, text...)
}

var errProtobuf = errors.New("the answer is no protobuf message")

// enumField returns field 1 of a message, an enum: its last occurrence, and 0 without any.
func enumField(message []byte) (value uint64, err error) {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return 0, errProtobuf
		}
		content, size := fieldSize(key&7, message[n:])
		if size < 0 || size > len(message)-n {
			return 0, errProtobuf
		}
		if key == 1<<3|varint {
			value = content
		}
		message = message[n+size:]
	}
	return value, nil
}

// fieldSize returns the bytes that a field of a wire type has after its key, -1 if
// there is no such field, and the number of a varint.
func fieldSize(wire uint64, rest []byte) (content uint64, size int) {
	switch wire {
	case fixed8:
		return 0, 8
	case fixed4:
		return 0, 4
	case varint, sized:
	default:
		return 0, -1
	}
	content, n := binary.Uvarint(rest)
	switch {
	case n <= 0 || wire == sized && content > uint64(len(rest)):
		return 0, -1
	case wire == sized:
		return 0, n + int(content)
	default:
		return content, n
	}
}
