package conversation

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"codex-proxy/codex/jsonscan"
)

// longRequest is the size from which a request is one of a long conversation, in bytes: over a line of 20 Mbit/s it
// takes a round trip of 25 ms to go up, and more while TCP measures the line.
const longRequest = 64 << 10

// longestRequest bounds a request that goes over a WebSocket, in bytes. OpenAI closes one after a message of 16 MiB, to
// which the headers of the request add. A continuation of a longer conversation is small, but its first request is
// whole.
const longestRequest = 15 << 20

// request is a request of a long conversation.
type request struct {
	of         digest // the conversation: its endpoint, its login and its key of the endpoint's cache
	properties digest // of the fields that stay the same in the conversation
	fields     []field
	metadata   []byte // of the client; nil: none
	items      [][]byte
	digests    []digest // of the items
}

type field struct{ name, value []byte }

// ofOthers are the fields that codex has in no request by HTTP, or that mean something else in a WebSocket.
var ofOthers = []string{"type", "generate", "background", "previous_response_id", "conversation", "stream_id"}

// passing are the fields that may change within a conversation, as codex itself decides it.
var passing = []string{"stream_options", "access_programs"}

// Text is a body that is in memory.
type Text interface{ Text() []byte }

// read reads a request; nil: it is none of a long conversation.
func read(r *http.Request) *request {
	if r.Method != http.MethodPost || r.URL.Scheme != "https" || !strings.HasSuffix(r.URL.Path, "/responses") ||
		r.ContentLength < longRequest || r.ContentLength > longestRequest || r.GetBody == nil ||
		r.Header.Get("Content-Encoding") != "" {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	var text []byte
	if in, is := body.(Text); is {
		text = in.Text()
	} else if text, err = io.ReadAll(body); err != nil {
		return nil
	}
	return parse(r, text)
}

// parse returns nil if the body is not as codex writes it.
func parse(r *http.Request, text []byte) *request {
	q := &request{}
	var cacheKey []byte
	plain, streams, names := false, false, map[string]bool{}
	o := jsonscan.Open(text)
	for name, value, ok := o.Next(); ok; name, value, ok = o.Next() {
		if names[string(name)] || bytes.IndexByte(name, '\\') >= 0 || slices.Contains(ofOthers, string(name)) {
			return nil
		}
		names[string(name)] = true
		switch string(name) {
		case "input":
			var err error
			if q.items, err = jsonscan.Elements(value); err != nil {
				return nil
			}
			continue
		case "client_metadata":
			q.metadata = value
			continue
		case "store":
			plain = string(value) == "false"
		case "stream":
			streams = string(value) == "true"
		case "prompt_cache_key":
			cacheKey = value
		}
		q.fields = append(q.fields, field{name, value})
	}
	if o.Err() != nil || !plain || !streams || word(cacheKey) == "" || len(q.items) == 0 {
		return nil
	}
	q.of = digestOf([]byte(r.URL.String()), []byte(r.Header.Get("Authorization")),
		[]byte(r.Header.Get("ChatGPT-Account-ID")), cacheKey)
	q.properties = q.fixed()
	q.digests = make([]digest, len(q.items))
	for i, text := range q.items {
		q.digests[i] = digestOf(text)
	}
	return q
}

// fixed is the digest of the fields that stay the same in a conversation.
func (q *request) fixed() digest {
	var parts [][]byte
	for _, f := range q.fields {
		if !slices.Contains(passing, string(f.name)) {
			parts = append(parts, f.name, f.value)
		}
	}
	return digestOf(parts...)
}

// sent is the part that the endpoint has once it has answered the request, without the items of the answer.
func (q *request) sent() *known {
	k := &known{properties: q.properties, items: make([]item, len(q.items))}
	for i, d := range q.digests {
		k.items[i].digest = d
	}
	return k
}

// message is the request as a message in a WebSocket, with the items from one on, after a response that the endpoint
// has; empty: it has none.
func (q *request) message(from int, previous string, h http.Header) []byte {
	items := q.items[from:]
	size := 4 << 10
	for _, text := range items {
		size += len(text) + 1
	}
	m := append(make([]byte, 0, size), `{"type":"response.create"`...)
	add := func(name, value []byte) {
		m = append(append(append(m, `,"`...), name...), `":`...)
		m = append(m, value...)
	}
	for _, f := range q.fields {
		add(f.name, f.value)
	}
	if metadata := metadataOf(q.metadata, h); metadata != nil {
		add([]byte("client_metadata"), metadata)
	}
	if previous != "" {
		add([]byte("previous_response_id"), []byte(`"`+previous+`"`))
	}
	add([]byte("input"), []byte{'['})
	return append(append(m, bytes.Join(items, []byte{','})...), ']', '}')
}

// ofRequest are the headers that codex has in a request by HTTP, and in the metadata of one by WebSocket, whose headers
// are of its first request. In the metadata some have another name.
var ofRequest = map[string]string{
	"X-Codex-Installation-Id": "x-codex-installation-id", "X-Codex-Window-Id": "x-codex-window-id",
	"X-Codex-Turn-Metadata": "x-codex-turn-metadata", "X-Codex-Turn-State": "x-codex-turn-state",
	"X-Codex-Parent-Thread-Id": "x-codex-parent-thread-id", "X-Openai-Subagent": "x-openai-subagent",
	"Traceparent":                            "ws_request_header_traceparent",
	"Tracestate":                             "ws_request_header_tracestate",
	"X-Openai-Internal-Codex-Responses-Lite": "ws_request_header_x_openai_internal_codex_responses_lite",
}

// metadataOf joins the metadata of a request and of its headers; nil: there are none.
func metadataOf(text []byte, h http.Header) []byte {
	all := map[string]json.RawMessage{}
	if text != nil && json.Unmarshal(text, &all) != nil {
		return text
	}
	for name, values := range h {
		in := ofRequest[name]
		if _, has := all[in]; in == "" || has || len(values) == 0 {
			continue
		}
		if value, err := json.Marshal(values[0]); err == nil {
			all[in] = value
		}
	}
	if len(all) == 0 {
		return text
	}
	made, err := json.Marshal(all)
	if err != nil {
		return text
	}
	return made
}

// member is the value of an object's first member of a name; nil if it has none.
func member(text []byte, name string) []byte {
	o := jsonscan.Open(text)
	for n, value, ok := o.Next(); ok; n, value, ok = o.Next() {
		if string(n) == name {
			return value
		}
	}
	return nil
}

// word is a value that is a string without escapes; empty if it is another value.
func word(value []byte) string {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return ""
	}
	return string(value[1 : len(value)-1])
}
