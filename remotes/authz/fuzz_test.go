package authz

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/iotest"
	"time"
)

// masked is a frame of a client.
func masked(h header, payload string) []byte {
	h.masked, h.length = true, int64(len(payload))
	b := appendHeader(nil, h)
	copy(b[len(b)-4:], "mask")
	data := []byte(payload)
	unmask(data, [4]byte([]byte("mask")), 0)
	return append(b, data...)
}

// decode runs the decoder over the bytes of a client, and returns what goes to codex and to the client.
func decode(role Role, client io.Reader) (codex, answers []byte, err error) {
	p := &Proxy{Logger: slog.New(slog.DiscardHandler), large: make(chan struct{}, 1)}
	var out, back bytes.Buffer
	s := &clientConn{proxy: p, Session: Session{Role: role}}
	i := &inbound{client: bufio.NewReaderSize(client, 64), codex: bufio.NewWriterSize(&out, 64), direct: &out, answers: &clientWriter{conn: &back},
		session: s, deadline: func(time.Time) error { return nil }, large: p.large}
	err = i.run(context.Background())
	_ = i.codex.Flush()
	return out.Bytes(), back.Bytes(), err
}

// messages reads whole frames strictly, and joins fragments.
func messages(t *testing.T, b []byte, fromClient bool) (list []string) {
	t.Helper()
	var open bool
	var joined []byte
	for len(b) > 0 {
		h, size, err := parseHeader(b)
		if err != nil || size == 0 || h.masked != fromClient || int64(len(b)-size) < h.length {
			t.Fatalf("frame %+v of %d bytes: %v", h, len(b), err)
		}
		payload := b[size : size+int(h.length)]
		b = b[size+int(h.length):]
		unmask(payload, h.mask, 0)
		if h.op.control() {
			continue
		}
		if open != (h.op == continuation) {
			t.Fatal("a message within another one")
		}
		joined = append(joined, payload...)
		if open = !h.fin; !open {
			list = append(list, string(joined))
			joined = nil
		}
	}
	return list
}

// Whatever a client sends, in whatever pieces: codex gets whole frames, and no request that the role does not allow.
func FuzzInbound(f *testing.F) {
	list := masked(header{fin: true, op: text}, `{"id":1,"method":"thread/list"}`)
	f.Add(list, false)
	f.Add(append(masked(header{op: text}, `{"id":1,"met`), masked(header{fin: true, op: continuation},
		`hod":"account/logout"}`)...), true)
	f.Add(append(masked(header{op: text}, `{"id":1,`), append(masked(header{fin: true, op: ping}, "p"),
		masked(header{fin: true, op: continuation}, `"method":"turn/start"}`)...)...), false)
	f.Add(append(list, masked(header{fin: true, op: closing}, "\x03\xe8")...), true)
	f.Add(masked(header{fin: true, op: text}, `{"id":1,"method":"thread/list","meth\u006fd":"account/logout"}`), false)
	f.Add([]byte{0x81, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, false)
	f.Fuzz(func(t *testing.T, b []byte, viewer bool) {
		role := Owner
		if viewer {
			role = Viewer
		}
		codex, answers, err := decode(role, bytes.NewReader(bytes.Clone(b)))
		again, _, errAgain := decode(role, iotest.OneByteReader(bytes.NewReader(b)))
		if !bytes.Equal(codex, again) {
			t.Fatalf("bytes in other pieces pass as %q (%v) in place of %q (%v)", again, errAgain, codex, err)
		}
		for _, m := range messages(t, codex, true) {
			var got map[string]json.RawMessage // by exact names; the last one counts
			var method string
			if json.Unmarshal([]byte(m), &got) != nil || json.Unmarshal(got["method"], &method) != nil {
				continue // codex refuses what is no JSON
			}
			r, known := rules[method]
			request := len(got["id"]) > 0 && string(got["id"]) != "null"
			if method != "initialized" && (!request || !known || r.access == refused || viewer && r.access != all) {
				t.Fatalf("passed: %s", m)
			}
		}
		messages(t, answers, false)
		var reason *closed
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &reason) {
			t.Fatal(err)
		}
	})
}

// Whatever codex sends, in whatever pieces: an owner gets it as it is, and a frame of the proxy lies between messages.
func FuzzOutbound(f *testing.F) {
	note := append(appendHeader(nil, header{fin: true, op: text, length: 30}), `{"method":"x","params":{"a":1}}`[:30]...)
	f.Add(note, uint8(3))
	ask := `{"method":"item/tool/call","id":3,"params":{}}`
	f.Add(append(appendHeader(nil, header{fin: true, op: text, length: int64(len(ask))}), ask...), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		var client bytes.Buffer
		out := &clientWriter{conn: &client}
		o := &outbound{codex: bytes.NewReader(b), client: out, questions: &questions{}}
		if err := o.run(); !errors.Is(err, io.EOF) {
			return // codex sent no frames
		}
		whole := client.Bytes()
		if !bytes.HasPrefix(b, whole) && !bytes.Contains(b, []byte("account/chatgptAuthTokens")) &&
			!bytes.Contains(b, []byte("attestation")) {
			t.Fatalf("%q became %q", b, whole)
		}
		var pieces bytes.Buffer
		out = &clientWriter{conn: &pieces}
		o = &outbound{codex: &chunks{b, max(int(size), 1)}, client: out, questions: &questions{}}
		_ = o.run()
		if !bytes.Equal(whole, pieces.Bytes()) {
			t.Fatalf("in pieces of %d: %q in place of %q", size, pieces.Bytes(), whole)
		}
	})
}

// chunks reads so many bytes at a time.
type chunks struct {
	b    []byte
	size int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.size)], c.b)
	c.b = c.b[n:]
	return n, nil
}
