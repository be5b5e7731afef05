package modelproxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// longestEvent bounds one event of a model, in bytes. codex 0.169 reads an event anew with each piece of it that comes:
// one of 16 MiB costs it some 10 seconds, one of 70 MiB more than a minute, in which it may miss its watchdog and be
// killed; the turn would then ask for the event again. The longest that codex needs are images, of a few MiB.
const longestEvent = 16 << 20

// tooLong ends the event that is too long, which codex then drops as broken, and the answer. The code is one after
// which codex does not ask again.
const tooLong = "\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"invalid_prompt\"," +
	"\"message\":\"the model sent an event of more than 16 MiB, which codex cannot process\"}}}\n\n"

// bound has the events of an answer end within the bound.
func bound(res *http.Response) {
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = &events{ReadCloser: res.Body, longest: longestEvent}
	}
}

// events is the body of an answer with events.
type events struct {
	io.ReadCloser
	longest int
	size    int       // of the event so far
	text    bool      // the line so far is not blank
	last    io.Reader // the words in place of the rest; nil: no event was too long
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	if e.last != nil {
		return e.last.Read(p)
	}
	n, err := e.ReadCloser.Read(p)
	e.count(p[:n])
	if e.size > e.longest {
		e.last = strings.NewReader(tooLong)
		return n, nil
	}
	return n, err
}

// count adds bytes to the event that they belong to. A blank line ends one.
func (e *events) count(b []byte) {
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		e.size += len(b) - len(rest)
		e.text = e.text || len(bytes.TrimSuffix(line, []byte{'\r'})) > 0
		if ended && !e.text {
			e.size = 0
		}
		e.text = e.text && !ended
		b = rest
	}
}
