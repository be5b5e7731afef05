package authz

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// opcode is the kind of a frame (RFC 6455, 5.2).
type opcode byte

const (
	continuation opcode = 0x0
	text         opcode = 0x1
	binaryData   opcode = 0x2
	closing      opcode = 0x8
	ping         opcode = 0x9
	pong         opcode = 0xA
)

// control frames may come between the fragments of a message.
func (o opcode) control() bool { return o&0x8 != 0 }

// controlLimit is the largest payload of a control frame.
const controlLimit = 125

// headerLimit is the size of the longest header: two bytes, a length of eight, a mask of four.
const headerLimit = 14

// header is the beginning of a frame.
type header struct {
	fin    bool
	op     opcode
	masked bool
	mask   [4]byte
	length int64
}

var errProtocol = errors.New("no valid WebSocket frame")

// parseHeader reads the header with which b begins. Its size is 0 if b ends before it does.
func parseHeader(b []byte) (h header, size int, err error) {
	if len(b) < 2 {
		return h, 0, nil
	}
	h = header{fin: b[0]&0x80 != 0, op: opcode(b[0] & 0xF), masked: b[1]&0x80 != 0, length: int64(b[1] & 0x7F)}
	if err := h.check(b[0]); err != nil {
		return h, 0, err
	}
	size = 2
	if more := lengthBytes(h.length); more > 0 {
		if len(b) < size+more {
			return h, 0, nil
		}
		if h.length, err = longLength(b[size : size+more]); err != nil {
			return h, 0, err
		}
		size += more
	}
	if h.masked {
		if len(b) < size+len(h.mask) {
			return h, 0, nil
		}
		size += copy(h.mask[:], b[size:])
	}
	return h, size, nil
}

func (h header) check(first byte) error {
	switch h.op {
	case continuation, text, binaryData:
	case closing, ping, pong:
		if !h.fin || h.length > controlLimit {
			return fmt.Errorf("%w: a control frame is long or in fragments", errProtocol)
		}
	default:
		return fmt.Errorf("%w: opcode %#x", errProtocol, byte(h.op))
	}
	if first&0x70 != 0 {
		return fmt.Errorf("%w: an extension that nobody has agreed on", errProtocol)
	}
	return nil
}

// lengthBytes is the number of bytes of a length that does not fit into the second byte.
func lengthBytes(short int64) int {
	switch short {
	case 126:
		return 2
	case 127:
		return 8
	}
	return 0
}

// longLength accepts the shortest form alone, as the RFC requires.
func longLength(b []byte) (int64, error) {
	if len(b) == 2 {
		if n := int64(binary.BigEndian.Uint16(b)); n > controlLimit {
			return n, nil
		}
	} else if n := binary.BigEndian.Uint64(b); n > 0xFFFF && n>>63 == 0 {
		return int64(n), nil
	}
	return 0, fmt.Errorf("%w: its length", errProtocol)
}

// appendHeader appends the header of a frame. The mask of a masked one is zero, which leaves the payload as it is:
// between two processes of one machine there is no cache that a payload could deceive (RFC 6455, 10.3).
func appendHeader(b []byte, h header) []byte {
	first, masked := byte(h.op), byte(0)
	if h.fin {
		first |= 0x80
	}
	if h.masked {
		masked = 0x80
	}
	b = append(b, first)
	switch {
	case h.length <= controlLimit:
		b = append(b, masked|byte(h.length))
	case h.length <= 0xFFFF:
		b = binary.BigEndian.AppendUint16(append(b, masked|126), uint16(h.length))
	default:
		b = binary.BigEndian.AppendUint64(append(b, masked|127), uint64(h.length))
	}
	if h.masked {
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

// unmask decodes b, which begins at that offset of the payload.
func unmask(b []byte, mask [4]byte, offset int64) {
	if mask == [4]byte{} {
		return
	}
	var turned [8]byte
	for i := range turned {
		turned[i] = mask[(offset+int64(i))&3]
	}
	key := binary.LittleEndian.Uint64(turned[:])
	for len(b) >= 32 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
		binary.LittleEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(b[8:])^key)
		binary.LittleEndian.PutUint64(b[16:], binary.LittleEndian.Uint64(b[16:])^key)
		binary.LittleEndian.PutUint64(b[24:], binary.LittleEndian.Uint64(b[24:])^key)
		b = b[32:]
	}
	for i := range b {
		b[i] ^= turned[i&7]
	}
}
