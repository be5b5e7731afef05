package traces

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

type (
	traceID [16]byte
	spanID  [8]byte
)

// Context is the place of a span in its trace, in the words of W3C Trace Context.
type Context struct {
	Traceparent string
	Tracestate  string // empty: there is none
}

const (
	// parentLength is that of a traceparent of version 00.
	parentLength = 55
	// maxState bounds a tracestate, in bytes; a longer one may be left out.
	maxState = 512
	sampled  = 1 // the flag
)

// remote is the span of a client in which a request was made.
type remote struct {
	trace   traceID
	span    spanID
	sampled bool
	state   string
}

// parse reads what a client says of its trace. What is not valid is as if it
// were not there.
func parse(h http.Header) (r remote, ok bool) {
	parents := h.Values("Traceparent")
	if len(parents) != 1 {
		return remote{}, false
	}
	text := strings.TrimSpace(parents[0])
	if len(text) < parentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return remote{}, false
	}
	var version, flags [1]byte
	if !fromHex(version[:], text[:2]) || !fromHex(r.trace[:], text[3:35]) || !fromHex(r.span[:], text[36:52]) || !fromHex(flags[:], text[53:55]) {
		return remote{}, false
	}
	switch {
	case version[0] == 0xff, r.trace == traceID{}, r.span == spanID{}:
		return remote{}, false
	case version[0] == 0 && len(text) > parentLength, len(text) > parentLength && text[parentLength] != '-':
		return remote{}, false
	}
	r.sampled, r.state = flags[0]&sampled != 0, state(h)
	return r, true
}

// fromHex takes small letters only, as the standard says.
func fromHex(into []byte, text string) bool {
	_, err := hex.Decode(into, []byte(text))
	return err == nil && strings.ToLower(text) == text
}

// state is passed on as it came, if it can be.
func state(h http.Header) string {
	text := strings.Join(h.Values("Tracestate"), ",")
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	if len(text) > maxState || strings.ContainsFunc(text, unprintable) {
		return ""
	}
	return text
}

func newTraceID() (id traceID) {
	for id == (traceID{}) {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id spanID) {
	for id == (spanID{}) {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
