package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// stream writes the events of one response in the order of the OpenAI reference, "Responses: streaming
// events": created, then for each output item added, its deltas, done; then the end.
type stream struct {
	w       http.ResponseWriter
	id      string
	model   string
	account string
	seq     int
	usage   Usage
	output  []map[string]any
	item    string          // the type of the open item: "message", "reasoning" or ""
	text    strings.Builder // of the open item
	calls   int
}

// newStream sends the headers and response.created.
func newStream(w http.ResponseWriter, n int, model, account string) *stream {
	s := &stream{w: w, id: fmt.Sprintf("resp_%d", n), model: model, account: account, usage: Usage{Input: 10, Output: 5}}
	_ = s.event("response.created", map[string]any{"response": s.response("in_progress", nil)})
	return s
}

func (s *stream) emit(ctx context.Context, step Step) error {
	switch step.Verb {
	case "text":
		return s.delta("message", step.Text)
	case "reasoning":
		return s.delta("reasoning", step.Text)
	case "split":
		return s.splitDelta(step.Text)
	case "repeat":
		return s.repeat(ctx, step.N, step.Text)
	case "trickle":
		return s.trickle(ctx, step)
	case "huge":
		return s.huge(ctx, step)
	case "call":
		return s.call(step.Name, step.Text)
	case "custom":
		return s.callCustom(step.Name, step.Text)
	case "calling":
		return s.openCall(step.Name, step.Text)
	case "completed":
		return s.finish("completed", nil)
	case "refusal":
		return s.refuse(step.Text)
	case "usage":
		s.usage = step.Usage
		return nil
	case "badjson":
		return s.write([]byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_te\n\n"))
	}
	return fmt.Errorf("cannot play %q", step.Verb)
}

func (s *stream) repeat(ctx context.Context, n int, text string) error {
	for range n {
		if err := s.delta("message", text); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func (s *stream) trickle(ctx context.Context, step Step) error {
	for _, r := range step.Text {
		if err := pause(ctx, step.Every); err != nil {
			return err
		}
		if err := s.delta("message", string(r)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) huge(ctx context.Context, step Step) error {
	for left := step.N; left > 0 && ctx.Err() == nil; left -= step.Chunk {
		if err := s.delta("message", strings.Repeat("x", min(left, step.Chunk))); err != nil {
			return err
		}
	}
	return nil
}

// delta adds text to the open item of that kind, opening one if need be.
func (s *stream) delta(kind, text string) error {
	payload, err := s.prepare(kind, text)
	if err != nil {
		return err
	}
	return s.write(payload)
}

// splitDelta cuts the event after the first byte of a multi-byte character.
func (s *stream) splitDelta(text string) error {
	payload, err := s.prepare("message", text)
	if err != nil {
		return err
	}
	cut := len(payload) / 2
	if i := bytes.IndexFunc(payload, func(r rune) bool { return r > 127 }); i >= 0 {
		cut = i + 1
	}
	if err := s.write(payload[:cut]); err != nil {
		return err
	}
	return s.write(payload[cut:])
}

func (s *stream) prepare(kind, text string) ([]byte, error) {
	if s.item != kind {
		if err := s.openItem(kind); err != nil {
			return nil, err
		}
	}
	s.text.WriteString(text)
	if kind == "reasoning" {
		return s.encode("response.reasoning_summary_text.delta",
			s.at(map[string]any{"summary_index": 0, "delta": text}))
	}
	return s.encode("response.output_text.delta", s.at(map[string]any{"content_index": 0, "delta": text}))
}

// finish closes the open item and sends the last event: response.completed, .incomplete or .failed.
func (s *stream) finish(status string, extra map[string]any) error {
	if err := s.closeItem(); err != nil {
		return err
	}
	return s.event("response."+status, map[string]any{"response": s.response(status, extra)})
}

func (s *stream) response(status string, extra map[string]any) map[string]any {
	r := map[string]any{"id": s.id, "object": "response", "status": status, "model": s.model, "output": s.output}
	for k, v := range extra {
		r[k] = v
	}
	if status == "completed" || status == "incomplete" {
		r["usage"] = map[string]any{
			"input_tokens": s.usage.Input, "input_tokens_details": map[string]any{"cached_tokens": s.usage.Cached},
			"output_tokens":         s.usage.Output,
			"output_tokens_details": map[string]any{"reasoning_tokens": s.usage.Reasoning},
			"total_tokens":          s.usage.Input + s.usage.Output}
	}
	return r
}

func failure(step Step) map[string]any {
	message := step.Text
	if message == "" {
		message = "scripted failure"
	}
	return map[string]any{"error": map[string]any{"code": step.Name, "message": message}}
}

func incomplete(step Step) map[string]any {
	reason := step.Name
	if reason == "" {
		reason = "max_output_tokens"
	}
	return map[string]any{"incomplete_details": map[string]any{"reason": reason}}
}

func (s *stream) event(name string, data map[string]any) error {
	payload, err := s.encode(name, data)
	if err != nil {
		return err
	}
	return s.write(payload)
}

func (s *stream) encode(name string, data map[string]any) ([]byte, error) {
	data["type"], data["sequence_number"] = name, s.seq
	s.seq++
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: ", name)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil { // ends with the first of the two newlines
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// write sends p at once: the bytes of a step are on the wire before the next step begins.
func (s *stream) write(p []byte) error {
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}
