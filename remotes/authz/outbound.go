package authz

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"codex-proxy/codex/jsonscan"
)

// outboundBuffer is the number of bytes read from codex at a time. It holds the beginning of a message whole.
const outboundBuffer = 64 << 10

// beginning is as much of a message of codex as the proxy reads. codex writes "method" and "id" before "params".
const beginning = 2 << 10

// outbound copies the messages of codex to one client. All fields belong to the goroutine of run.
type outbound struct {
	codex     io.Reader
	client    *clientWriter
	role      Role
	questions *questions
	all       bool   // no request of codex is withheld
	greeted   []byte // the id of a request; its answer does not go on; nil: no request
	// at each answer of codex, with the id of a request that it refuses, if it can be read
	answered func(failed []byte)

	left    int64 // bytes of the payload of the current frame that are still to come
	message bool  // a message lies open, in a frame or between two of its fragments
	drop    bool  // the open message does not go on
	skip    bool  // the current frame does not go on
	ends    bool  // the current frame ends the open message
	ended   bool  // codex has sent a close frame
}

// run returns when codex has closed, or the client accepts no more.
func (o *outbound) run() error {
	buffer := make([]byte, outboundBuffer)
	for held := 0; ; {
		n, readErr := o.codex.Read(buffer[held:])
		b := buffer[:held+n]
		done, err := o.relay(b)
		if err != nil {
			return err
		}
		held = copy(buffer, b[done:])
		if readErr != nil {
			return readErr
		}
	}
}

// relay passes on as much of b as it can, and returns the number of bytes.
func (o *outbound) relay(b []byte) (done int, err error) {
	from, between := 0, -1 // of the bytes that are to be written at once
	mark := func() {
		if between < 0 && !o.open() {
			between = done - from
		}
	}
	flush := func() error {
		chunk, at := b[from:done], between
		from, between = done, -1
		if len(chunk) == 0 && at < 0 {
			return nil
		}
		return o.client.pass(chunk, at, o.open())
	}
	mark()
	for done < len(b) {
		if o.left == 0 {
			size, dropped, err := o.begin(b[done:])
			if err != nil {
				return done, err
			}
			if size == 0 {
				break // the rest of the header, or of the beginning, is still to come
			}
			if dropped {
				if err := flush(); err != nil {
					return done, err
				}
			}
			done += size
		}
		n := int(min(o.left, int64(len(b)-done)))
		done += n
		o.left -= int64(n)
		if o.skip {
			from, between = done, -1
		}
		if o.left == 0 {
			o.finish()
			mark()
		}
	}
	return done, flush()
}

// open reports whether a frame of the proxy would lie inside of a message of codex, or of a frame.
func (o *outbound) open() bool { return o.left > 0 && !o.skip || o.message && !o.drop }

// begin reads the header of a frame, and of a message its beginning. dropped means that the frame does not go on.
func (o *outbound) begin(b []byte) (size int, dropped bool, err error) {
	h, size, err := parseHeader(b)
	if err != nil || size == 0 {
		return 0, false, err
	}
	if h.masked {
		return 0, false, fmt.Errorf("%w: codex masks", errProtocol)
	}
	switch {
	case h.op.control():
		o.skip, o.ends, o.ended = false, false, o.ended || h.op == closing
	case h.op == continuation != o.message:
		return 0, false, fmt.Errorf("%w: a fragment of no message, or a message within another one", errProtocol)
	default:
		if h.op != continuation {
			have := b[size:]
			if want := min(h.length, beginning); int64(len(have)) < want {
				return 0, false, nil
			}
			o.drop = o.drops(have[:min(h.length, beginning)])
		}
		o.message, o.skip, o.ends = true, o.drop, h.fin
	}
	o.left = h.length
	return size, o.skip, nil
}

func (o *outbound) finish() {
	if o.ends {
		o.message, o.drop = false, false
	}
	o.ends, o.skip = false, false
}

// drops decides on a message by its beginning: requests of codex go to owners alone, and some to no client.
func (o *outbound) drops(head []byte) bool {
	is, failed := readAnswer(head)
	greeted := o.isGreeted(head)
	if is || greeted {
		if o.answered != nil {
			o.answered(failed)
		}
		return greeted
	}
	var id []byte
	method := ""
	members := jsonscan.Open(head)
	for name, ok := members.Name(); ok && (id == nil || method == ""); name, ok = members.Name() {
		switch string(name) {
		case "params", "result", "error":
			if id == nil || method == "" {
				return false // a notification, or an answer
			}
		}
		value, valid := members.Value()
		if !valid {
			break
		}
		switch string(name) {
		case "id":
			id = value
		case "method":
			text, _ := jsonscan.Text(value)
			method = string(text)
		}
	}
	switch {
	case id == nil || method == "":
		return false
	case o.role == Viewer || !o.all && slices.Contains(withheld, method):
		return true
	}
	o.questions.add(string(id))
	return false
}

// isGreeted reports whether a message is codex's answer to the request that the proxy has answered: it has the id, and
// a result or an error, before or after that.
func (o *outbound) isGreeted(head []byte) bool {
	if o.greeted == nil {
		return false
	}
	id, answer := false, false
	members := jsonscan.Open(head)
	for name, ok := members.Name(); ok && (!id || !answer); name, ok = members.Name() {
		switch string(name) {
		case "result", "error":
			if answer = true; id {
				o.greeted = nil
				return true
			}
		case "method":
			return false
		}
		value, valid := members.Value()
		if !valid {
			return false
		}
		id = id || string(name) == "id" && bytes.Equal(value, o.greeted)
	}
	if id && answer {
		o.greeted = nil
		return true
	}
	return false
}

// readAnswer reports whether a message is an answer, by its beginning: codex writes {"id":…,"result":…} and
// {"error":…,"id":…}. Of an error it returns the id, nil if that comes too late.
func readAnswer(head []byte) (is bool, failed []byte) {
	if !bytes.HasPrefix(head, []byte(`{"id":`)) && !bytes.HasPrefix(head, []byte(`{"error":`)) ||
		bytes.Contains(head, []byte(`"method":`)) {
		return false, nil
	}
	var id []byte
	isError := false
	members := jsonscan.Open(head)
	for name, ok := members.Name(); ok && string(name) != "result"; name, ok = members.Name() {
		isError = isError || string(name) == "error"
		value, valid := members.Value()
		if !valid {
			break
		}
		if string(name) == "id" {
			id = value
		}
	}
	if !isError {
		return true, nil
	}
	return true, id
}
