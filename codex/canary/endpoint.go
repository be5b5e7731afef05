package canary

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	// Model is the model that the endpoint serves.
	Model = "canary"
	// maxRequest bounds a request: the largest of the steps has a few kilobytes, and codex may add some.
	maxRequest = 1 << 20
	// maxRequests bounds the requests that are kept of one step.
	maxRequests = 8
)

// Endpoint is the model of the steps: OpenAI's Responses API, which gives each request the answer that the step has
// set. It is an http.Handler.
type Endpoint struct {
	mu       sync.Mutex
	answer   []map[string]any // the output items
	requests []request
}

// request is a request of codex, as far as the steps look at it.
type request struct {
	Model string `json:"model"`
	Input []item `json:"input"`
	Tools []tool `json:"tools"`
}

type tool struct {
	Name string `json:"name"`
}

// item is one item of the input.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	CallID  string          `json:"call_id"`
	Output  json.RawMessage `json:"output"`
	Content []struct {
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
	} `json:"content"`
}

// text is the text of a message.
func (i item) text() (text string) {
	for _, part := range i.Content {
		text += part.Text
	}
	return text
}

// expect sets the answer to the requests from now on, and forgets those before.
func (e *Endpoint) expect(items ...map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer, e.requests = items, nil
}

// received are the requests since expect.
func (e *Endpoint) received() []request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests
}

// take records a request, and returns its number and its answer.
func (e *Endpoint) take(r request) (n int, answer []map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.requests) < maxRequests {
		e.requests = append(e.requests, r)
	}
	return len(e.requests), e.answer
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	var body request
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil {
		http.Error(w, "the request does not parse: "+err.Error(), http.StatusBadRequest)
		return
	}
	n, output := e.take(body)
	stream{w, fmt.Sprintf("resp_%d", n)}.response(output)
}

// message is an output item with text.
func message(text string) map[string]any {
	return map[string]any{"type": "message", "role": "assistant", "text": text}
}

// call is an output item that calls a tool.
func call(name, arguments string) map[string]any {
	return map[string]any{"type": "function_call", "name": name, "arguments": arguments, "call_id": "call_1"}
}

// stream is one answer, in the events of the OpenAI reference, "Responses: streaming events".
type stream struct {
	w  http.ResponseWriter
	id string
}

func (s stream) response(output []map[string]any) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.event("response.created", map[string]any{"response": map[string]any{"id": s.id}})
	for n, out := range output {
		id := fmt.Sprintf("item_%s_%d", s.id, n)
		open := map[string]any{"id": id, "status": "in_progress"}
		done := map[string]any{"id": id, "status": "completed"}
		for key, value := range out {
			open[key], done[key] = value, value
		}
		text, isMessage := out["text"].(string)
		if isMessage {
			delete(open, "text")
			delete(done, "text")
			open["content"] = []any{}
			done["content"] = []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}
		} else {
			open["arguments"] = ""
		}
		s.event("response.output_item.added", map[string]any{"output_index": n, "item": open})
		for _, piece := range strings.SplitAfter(text, " ") {
			if piece != "" {
				s.event("response.output_text.delta", map[string]any{"item_id": id, "output_index": n,
					"content_index": 0, "delta": piece})
			}
		}
		s.event("response.output_item.done", map[string]any{"output_index": n, "item": done})
	}
	s.event("response.completed", map[string]any{"response": map[string]any{"id": s.id, "usage": map[string]any{
		"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, //nolint:mnd // any numbers
	}}})
}

func (s stream) event(kind string, data map[string]any) {
	data["type"] = kind
	text, _ := json.Marshal(data) // of strings, numbers and maps
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, text)
	_ = http.NewResponseController(s.w).Flush() // codex may be gone
}
