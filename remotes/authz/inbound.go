package authz

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// Bounds of the messages of one client. codex takes frames of 16 MiB, and messages of 64 MiB in fragments.
const (
	frameLimit   = 16 << 20
	messageLimit = 64 << 20
	// smallMessage needs no place among the large ones.
	smallMessage = 1 << 20
	// largeBound is the time that a large message may take, as it keeps its place from others.
	largeBound = 2 * time.Minute
	// keptMessage is the largest buffer that a connection keeps for its next message.
	keptMessage = 128 << 10
	// grownAtOnce is the room that an announcement alone gets.
	grownAtOnce = 256 << 10
)

// inbound decodes the messages of one client. All fields belong to the goroutine of run.
type inbound struct {
	client   *bufio.Reader
	codex    *bufio.Writer
	direct   io.Writer // codex without the buffer
	answers  *clientWriter
	session  *clientConn
	deadline func(time.Time) error // of the next reads
	large    chan struct{}         // places of large messages, of all clients
	stay     func()                // before codex reads that the client closes; may be nil
	aside    *aside                // of requests that codex does not get; nil: it gets all

	message []byte // the joined payloads of the open message
	open    bool
	placed  bool // the open message has a place among the large ones
}

// run returns when the client has closed, or with a reason to end its connection.
func (i *inbound) run(ctx context.Context) error {
	defer i.unplace()
	for {
		h, err := i.header()
		if err != nil {
			return err
		}
		if h.op.control() {
			err = i.control(h)
		} else {
			err = i.data(ctx, h)
		}
		if err != nil {
			return err
		}
		if h.op == closing {
			return i.codex.Flush()
		}
	}
}

func (i *inbound) header() (h header, err error) {
	for n := 2; ; n++ {
		if err := i.settle(int64(n)); err != nil {
			return h, err
		}
		b, err := i.client.Peek(n)
		if err != nil {
			if len(b) > 0 || i.open {
				err = io.ErrUnexpectedEOF
			}
			return h, err
		}
		h, size, err := parseHeader(b)
		switch {
		case err != nil:
			return h, closeFor(codeProtocol, "%v", err)
		case size > 0:
			_, _ = i.client.Discard(size) // it has been peeked
			if !h.masked {
				return h, closeFor(codeProtocol, "%v: a client must mask", errProtocol)
			}
			return h, nil
		}
	}
}

// settle sends the passed messages before the client has to be waited for.
func (i *inbound) settle(wanted int64) error {
	if int64(i.client.Buffered()) >= wanted {
		return nil
	}
	return i.codex.Flush()
}

// control passes a control frame on, between two fragments, too.
func (i *inbound) control(h header) error {
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(i.client, payload); err != nil {
		return err
	}
	unmask(payload, h.mask, 0)
	if h.op == closing && i.stay != nil {
		if err := i.codex.Flush(); err != nil {
			return err
		}
		i.stay()
	}
	return i.frame(header{fin: true, op: h.op, masked: true, length: h.length}, payload)
}

// frame buffers a small frame, and writes a large one at once.
func (i *inbound) frame(h header, payload []byte) error {
	var room [headerLimit]byte
	head := appendHeader(room[:0], h)
	if len(payload) >= i.codex.Size()/2 {
		if err := i.codex.Flush(); err != nil {
			return err
		}
		_, err := (&net.Buffers{head, payload}).WriteTo(i.direct)
		return err
	}
	if _, err := i.codex.Write(head); err != nil {
		return err
	}
	_, err := i.codex.Write(payload)
	return err
}

// data reads a frame of a message, and decides on the message with its last one.
func (i *inbound) data(ctx context.Context, h header) error {
	switch {
	case h.op == binaryData:
		return closeFor(codeUnsupported, "a message is not text")
	case h.op == continuation != i.open:
		return closeFor(codeProtocol, "%v: a fragment of no message, or a message within another one", errProtocol)
	case h.length > frameLimit:
		return tooBig("a frame", frameLimit)
	case int64(len(i.message))+h.length > i.session.messageLimit():
		return tooBig("a message", i.session.messageLimit())
	}
	i.open = true
	if err := i.read(ctx, h); err != nil {
		return err
	}
	if !h.fin {
		return nil
	}
	err := i.decide(ctx, i.message)
	i.open = false
	i.unplace()
	if i.message = i.message[:0]; cap(i.message) > keptMessage {
		i.message = nil
	}
	return err
}

// read appends the payload to the message.
func (i *inbound) read(ctx context.Context, h header) error {
	for offset := int64(0); offset < h.length; {
		if err := i.place(ctx, len(i.message)); err != nil {
			return err
		}
		i.message = slices.Grow(i.message, i.room(h.length-offset))
		n := min(h.length-offset, int64(cap(i.message)-len(i.message)))
		part := i.message[len(i.message) : len(i.message)+int(n)]
		if err := i.settle(n); err != nil {
			return err
		}
		if _, err := io.ReadFull(i.client, part); err != nil {
			return i.broken(err)
		}
		unmask(part, h.mask, offset)
		i.message = i.message[:len(i.message)+int(n)]
		offset += n
	}
	return nil
}

// broken is the reason why a message has no end.
func (i *inbound) broken(err error) error {
	switch {
	case i.placed && errors.Is(err, os.ErrDeadlineExceeded):
		return closeFor(codePolicy, "a message took longer than %v", largeBound)
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// room is by how much the buffer grows for so many bytes that are announced: at once if they are few, or if the message
// has a place among the large ones; else not beyond the received bytes.
func (i *inbound) room(announced int64) int {
	if i.placed || announced <= grownAtOnce {
		return int(announced)
	}
	return int(min(announced, max(int64(len(i.message)), keptMessage/2)))
}

// place waits for a place among the large messages, once a message is one.
func (i *inbound) place(ctx context.Context, size int) error {
	if i.placed || size < smallMessage {
		return nil
	}
	select {
	case i.large <- struct{}{}:
		i.placed = true
		return i.deadline(time.Now().Add(largeBound))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *inbound) unplace() {
	if i.placed {
		i.placed = false
		<-i.large
		_ = i.deadline(time.Time{}) // a closed connection fails at the next read
	}
}

func tooBig(what string, limit int64) error {
	return closeFor(codeTooBig, "%s has more than %d MiB, which is what a remote takes", what, limit>>20)
}

// decide passes a message on, answers it, or drops it.
func (i *inbound) decide(ctx context.Context, raw []byte) error {
	m, err := parse(raw)
	if err != nil {
		return closeFor(codePolicy, "%v", err)
	}
	if m.method == "" && i.session.proxy.Open && i.session.rejection == "" {
		return i.pass(raw)
	}
	if m.method == "" {
		if i.session.Role == Viewer || i.session.rejection != "" || !i.session.questions.take(string(m.id)) {
			i.session.dropped.Add(1)
			return nil
		}
		return i.pass(raw)
	}
	if i.session.rejection != "" {
		if m.id == nil {
			return nil
		}
		if err := i.answers.put(refusal(m.id, i.session.rejection)); err != nil {
			return err
		}
		return closeFor(codePolicy, "%s", i.session.rejection)
	}
	v := i.session.authorize(m, raw)
	if v.unknown {
		v.refusal = i.session.proxy.unknown(i.session.Session, m.method)
	}
	if v.pass != nil {
		if taken, err := i.aside.take(m); taken {
			return err
		}
		m, v = i.aside.settle(m, v)
	}
	switch {
	case v.pass != nil:
		if m.method == "thread/unsubscribe" { // it ends one thread, as the end of a connection ends all
			if err := i.codex.Flush(); err != nil {
				return err
			}
			i.session.leaves(ctx)
		}
		i.session.forwarding(m)
		if m.id != nil {
			i.session.open.add(1)
		}
		return i.pass(v.pass)
	case v.refusal != "":
		i.session.refused(m.method)
		return i.answers.put(refusal(m.id, v.refusal))
	}
	i.session.dropped.Add(1)
	return nil
}

// pass writes a message to codex, in frames that it takes.
func (i *inbound) pass(b []byte) error {
	for op := text; ; op = continuation {
		part := b[:min(len(b), frameLimit)]
		b = b[len(part):]
		err := i.frame(header{fin: len(b) == 0, op: op, masked: true, length: int64(len(part))}, part)
		if err != nil || len(b) == 0 {
			return err
		}
	}
}

// invalidRequest is JSON-RPC's code of a request that is understood and not done. With "method not found" a TUI
// would take codex for an old one.
const invalidRequest = -32600

// refusal is the frame that answers a request with an error.
func refusal(id []byte, words string) []byte {
	message, _ := json.Marshal(words) // a string has no errors
	body := fmt.Appendf(nil, `{"id":%s,"error":{"code":%d,"message":%s}}`, id, invalidRequest, message)
	return append(appendHeader(nil, header{fin: true, op: text, length: int64(len(body))}), body...)
}
