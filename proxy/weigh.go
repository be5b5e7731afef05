package proxy

import (
	"context"
	"fmt"
	"io"

	"codex-proxy/proxy/openai"
)

// What a request takes in memory at most, in bytes, while it is read, decoded and
// handed to a worker. TestWorstBody finds the bodies that take most.
const (
	perByte    = 3    // of the body: as it came, decoded, and as the worker gets it
	perElement = 100  // a name or value in it
	perItem    = 1536 // a message, an item of the input or a tool
)

// expected is what is taken for a body of so many bytes before it is read: most take
// less, and have not to wait for more when they are there.
func expected(size int64) int64 { return perByte*size + size/2 + 8<<10 }

// weightOf is what the body takes in all, or why it must not be decoded.
func weightOf(body []byte) (bytes int64, w openai.Weight, err error) {
	w = openai.Weigh(body)
	if w.Elements > openai.MaxElements {
		err = tooLarge("", fmt.Sprintf("the body holds %d names and values, more than the limit of %d; send shorter lists",
			w.Elements, openai.MaxElements))
	}
	return perByte*(int64(len(body))+w.Growth) + perElement*w.Elements + perItem*w.Items, w, err
}

// weigh refuses a body that must not be decoded, because its key has used up what it
// may use or because it holds too much, and takes the memory for one that may be.
func (s *Server) weigh(ctx context.Context, x *exchange, body []byte) error {
	bytes, w, tooMany := weightOf(body)
	if err := s.enter(x, w); err != nil {
		return err
	}
	if tooMany != nil {
		return tooMany
	}
	x.held.keep(bytes)
	return x.held.reach(ctx, bytes)
}

// reach takes what is missing to so many bytes.
func (h *held) reach(ctx context.Context, bytes int64) error {
	if most := h.memory.limit / 8 * 7; bytes > most {
		return tooLarge("", fmt.Sprintf("the request takes %d bytes of memory, and may take %d (7/8 of request_memory); "+
			"send less, or have the operator raise request_memory", bytes, most))
	}
	if bytes <= h.wanted {
		return nil
	}
	if h.bytes == 0 {
		return h.take(ctx, bytes)
	}
	return h.extend(ctx, bytes-h.wanted)
}

// add is reach for bytes that are to come on top of all others.
func (h *held) add(ctx context.Context, bytes int64) error { return h.reach(ctx, h.wanted+bytes) }

// heldBy is what it takes to continue a conversation that has been read.
func heldBy(conversation []said) (bytes int64) {
	for _, item := range conversation {
		bytes += perItem
		if item.brought == nil {
			bytes += perElement * openai.Weigh(item.JSON).Elements
		}
	}
	return bytes
}

// firstRead is how much of a body of unknown size is read before more memory is taken.
const firstRead = 16 << 10

// readAll reads what is of unknown size, up to limit bytes: what is longer is cut off
// behind one more. room takes the memory for so many, before they are read.
func readAll(from io.Reader, limit int64, room func(bytes int64) error) ([]byte, error) {
	b := make([]byte, 0, min(firstRead, limit+1))
	for {
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF || int64(len(b)) > limit:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) < cap(b):
			continue
		}
		size := min(4*int64(cap(b)), limit+1)
		if err := room(perByte * size); err != nil {
			return nil, err
		}
		b = append(make([]byte, 0, size), b...)
	}
}
