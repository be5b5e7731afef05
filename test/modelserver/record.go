package modelserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is one request that the server received, with its outcome.
type Request struct {
	ID       int         `json:"id"` // 1 for the first
	At       time.Time   `json:"at"`
	Method   string      `json:"method"`
	Path     string      `json:"path"`
	Header   http.Header `json:"header"`
	Bytes    int         `json:"bytes"` // of the body
	Body     Body        `json:"body"`
	Script   string      `json:"script,omitempty"` // the script that answered: marker, word, model, queue or default
	Status   int         `json:"status,omitempty"` // of the answer; 0 before it
	Gate     string      `json:"gate,omitempty"`   // the gate it waits at
	Finished time.Time   `json:"finished,omitzero"`
	Cut      time.Time   `json:"cut,omitzero"` // when the client closed before the answer was complete
}

// Body is the part of a Responses API request that tests look at; Raw is all of it.
type Body struct {
	Model        string            `json:"model,omitempty"`
	Instructions string            `json:"instructions,omitempty"`
	Input        []json.RawMessage `json:"input,omitempty"`
	Tools        []json.RawMessage `json:"tools,omitempty"`
	Text         struct {
		Format json.RawMessage `json:"format,omitempty"`
	} `json:"text"`
	Reasoning json.RawMessage `json:"reasoning,omitempty"`
	Raw       json.RawMessage `json:"raw,omitempty"`
}

// contains reports whether an item of the input has the word.
func (b Body) contains(word string) bool {
	return slices.ContainsFunc(b.Input, func(item json.RawMessage) bool { return bytes.Contains(item, []byte(word)) })
}

// Open reports whether the answer is still under way.
func (r Request) Open() bool { return r.Finished.IsZero() && r.Cut.IsZero() }

// record is the log of requests. Every change goes through update, which wakes the waiting callers.
type record struct {
	mu        sync.Mutex
	requests  []Request
	forgotten int // how many came before requests
	changed   chan struct{}
}

func (l *record) init() { l.changed = make(chan struct{}) }

func (l *record) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *record) snapshot() ([]Request, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Request(nil), l.requests...), l.changed
}

func (l *record) add(r *http.Request, raw []byte) int {
	req := Request{At: time.Now(), Method: r.Method, Path: r.URL.RequestURI(),
		Header: r.Header.Clone(), Bytes: len(raw)}
	if json.Unmarshal(raw, &req.Body) == nil {
		req.Body.Raw = raw
	}
	l.update(func() {
		req.ID = l.forgotten + len(l.requests) + 1
		l.requests = append(l.requests, req)
	})
	return req.ID
}

// forget clears the log. An answer that is under way changes no request that comes later.
func (l *record) forget() {
	l.update(func() { l.forgotten, l.requests = l.forgotten+len(l.requests), nil })
}

// change edits request id in place, unless it is forgotten.
func (l *record) change(id int, edit func(*Request)) {
	l.update(func() {
		if id > l.forgotten {
			edit(&l.requests[id-l.forgotten-1])
		}
	})
}

func (l *record) finish(id, status int) {
	l.change(id, func(r *Request) { r.Status, r.Finished = status, time.Now() })
}
