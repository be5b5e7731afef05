package links

import "encoding/binary"

// frames finds the ends of the frames in the bytes of a WebSocket server (RFC 6455, 5.2): between two frames there is
// room for one of our own. It passes to a successor with its link.
type frames struct {
	Head   []byte `json:"head,omitempty"` // the header of the open frame, as far as it has come
	Left   uint64 `json:"left,omitempty"` // bytes of its payload that have not come
	Closed bool   `json:"closed,omitempty"`
}

// The first bytes of the frames that this package sends, and the number of the close frame.
const (
	opClose    = 0x8
	closeFrame = 0x80 | opClose
	pingFrame  = 0x89
)

// controlLimit bounds the payload of a control frame.
const controlLimit = 125

// next takes bytes up to the end of the open frame, or all of b, and returns their number.
func (f *frames) next(b []byte) (n int) {
	for n < len(b) && f.Left == 0 {
		f.Head = append(f.Head, b[n])
		n++
		if len(f.Head) < headSize(f.Head) {
			continue
		}
		f.Closed = f.Closed || f.Head[0]&0xf == opClose
		f.Left, f.Head = payload(f.Head), f.Head[:0]
		if f.Left == 0 {
			return n
		}
	}
	taken := min(f.Left, uint64(len(b)-n))
	f.Left -= taken
	return n + int(taken)
}

// whole reports whether no frame is open.
func (f *frames) whole() bool { return f.Left == 0 && len(f.Head) == 0 }

// headSize is the size of the header that begins so; 2 before it is known.
func headSize(head []byte) int {
	if len(head) < 2 {
		return 2
	}
	size := 2
	switch head[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if head[1]&0x80 != 0 {
		size += 4 // the mask, which a server does not send
	}
	return size
}

func payload(head []byte) uint64 {
	switch length := head[1] & 0x7f; length {
	case 126:
		return uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		return binary.BigEndian.Uint64(head[2:])
	default:
		return uint64(length)
	}
}

// closing is a close frame with a reason.
func closing(code uint16, reason string) []byte {
	reason = reason[:min(len(reason), controlLimit-2)]
	b := []byte{closeFrame, byte(2 + len(reason))}
	return append(binary.BigEndian.AppendUint16(b, code), reason...)
}
