package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxTokens is the max_tokens of requests to the Messages API, which requires one.
const maxTokens = 32000

// Messages is POST /v1/messages of Anthropic's API.
var Messages = API{
	Name: "messages",
	Path: "/v1/messages",
	ask: func(prompt string) map[string]any {
		return map[string]any{"max_tokens": maxTokens, "messages": []any{map[string]any{"role": "user", "content": prompt}}}
	},
	tool: func(t Tool) any { return map[string]any{"name": t.Name, "input_schema": t.Parameters} },
	reasoning: func(body map[string]any) {
		body["thinking"] = map[string]any{"type": "enabled", "budget_tokens": maxTokens / 2}
	},
	whole: (*Schema).Message,
	chunk: func(s *Schema, body []byte) (Answer, error) { return s.MessageStream(bytes.NewReader(body)) },
}

type anthropicMessage struct {
	ID           string
	Type         string
	Role         string
	Model        string
	Content      []json.RawMessage
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        *anthropicUsage `json:"usage"`
}

type anthropicUsage struct {
	Input  *int `json:"input_tokens"`
	Made   int  `json:"cache_creation_input_tokens"`
	Cached int  `json:"cache_read_input_tokens"`
	Output *int `json:"output_tokens"`
}

func (u *anthropicUsage) total() (n int) {
	for _, p := range []*int{u.Input, u.Output, &u.Made, &u.Cached} {
		if p != nil {
			n += *p
		}
	}
	return n
}

// block is a content block, or what an event adds to one.
type block struct {
	Type        string
	Text        string
	Thinking    string
	Signature   string
	ID, Name    string
	Input       json.RawMessage
	PartialJSON string `json:"partial_json"`
}

// stopReasons are those that codex-proxy has.
var stopReasons = []string{"end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"}

// Message checks a whole message.
func (s *Schema) Message(data []byte) (Answer, error) {
	if err := s.Check(Message, data); err != nil {
		return Answer{}, err
	}
	var m anthropicMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return Answer{}, err
	}
	if err := m.check(); err != nil {
		return Answer{}, fmt.Errorf("%w: %s", err, excerpt(data))
	}
	if m.StopReason == nil {
		return Answer{}, fmt.Errorf("a message without stop_reason: %s", excerpt(data))
	}
	a := Answer{ID: m.ID, Model: m.Model, Finish: *m.StopReason, Tokens: m.Usage.total()}
	for i, raw := range m.Content {
		var b block
		if err := json.Unmarshal(raw, &b); err != nil {
			return a, err
		}
		if err := a.addBlock(b); err != nil {
			return a, fmt.Errorf("block %d: %w: %s", i, err, excerpt(raw))
		}
	}
	return a, a.stopped(m.StopSequence)
}

// check checks what a message has from its beginning.
func (m anthropicMessage) check() error {
	switch {
	case m.Type != "message" || m.Role != "assistant":
		return errors.New("no message of the assistant")
	case m.ID == "" || m.Model == "":
		return errors.New("a message without id or model")
	case m.Content == nil:
		return errors.New("a message without content")
	case m.Usage == nil || m.Usage.Input == nil || m.Usage.Output == nil:
		return errors.New("a message without usage")
	}
	return nil
}

// addBlock adds a block that is complete.
func (a *Answer) addBlock(b block) error {
	switch b.Type {
	case "text":
		if b.Text == "" {
			return errors.New("a text block without text")
		}
		a.Text += b.Text
	case "thinking":
		if b.Signature == "" {
			return errors.New("a thinking block without signature")
		}
		a.Reasoning += b.Thinking
	case "tool_use":
		var input map[string]json.RawMessage
		if err := json.Unmarshal(b.Input, &input); err != nil || b.ID == "" || b.Name == "" {
			return errors.New("a call without id, name or an object for its input")
		}
		a.Calls = append(a.Calls, Call{b.ID, b.Name, string(b.Input)})
	default:
		return fmt.Errorf("a block of type %q", b.Type)
	}
	return nil
}

// stopped checks the stop reason against the rest.
func (a Answer) stopped(sequence *string) error {
	if !slices.Contains(stopReasons, a.Finish) {
		return fmt.Errorf("stop_reason %q", a.Finish)
	}
	if (a.Finish == "stop_sequence") != (sequence != nil) {
		return fmt.Errorf("stop_reason %q with stop_sequence %v", a.Finish, sequence)
	}
	if len(a.Calls) == 0 && a.Finish == "tool_use" || len(a.Calls) > 0 && a.Finish == "end_turn" {
		return fmt.Errorf("stop_reason %q with %d calls", a.Finish, len(a.Calls))
	}
	return nil
}

// errorTypes are the types of Anthropic's errors.
var errorTypes = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}

// MessagesError checks an error in Anthropic's form: of an answer with that status, or, with 0, of a stream.
func (s *Schema) MessagesError(data []byte, status int) (Failure, error) {
	if err := s.Check(AnthropicError, data); err != nil {
		return Failure{}, err
	}
	var e struct {
		Type      string
		Error     *Failure
		RequestID *string `json:"request_id"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return Failure{}, err
	}
	if e.Type != "error" || e.Error == nil || e.Error.Message == "" || e.RequestID == nil || *e.RequestID == "" {
		return Failure{}, fmt.Errorf("no error of Anthropic's form: %s", excerpt(data))
	}
	if of, known := errorTypes[e.Error.Type]; !known || status != 0 && status != of {
		return Failure{}, fmt.Errorf("an error of type %q with status %d; the types are %v", e.Error.Type, status,
			slices.Sorted(maps.Keys(errorTypes)))
	}
	return *e.Error, nil
}
