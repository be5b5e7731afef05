package contract

import (
	"bytes"
	"encoding/json"
)

// API makes the requests of one API, and judges the answers.
type API struct {
	Name string
	Path string
	ask  func(prompt string) map[string]any
	tool func(Tool) any
	// reasoning asks for the summary of the model's reasoning; nil: as the Responses API does.
	reasoning func(body map[string]any)
	whole     func(s *Schema, body []byte) (Answer, error)
	chunk     func(s *Schema, body []byte) (Answer, error)
}

// Tool is a function that a client offers.
type Tool struct {
	Name       string
	Parameters json.RawMessage
}

// Question is the content of a request.
type Question struct {
	Model  string
	Prompt string
	Stream bool
	Tools  []Tool
	// Reasoning asks for the summary of the model's reasoning.
	Reasoning bool
}

// Chat is POST /v1/chat/completions; streams are asked for their usage.
var Chat = API{
	Name: "chat",
	Path: "/v1/chat/completions",
	ask: func(prompt string) map[string]any {
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}}}
	},
	tool: func(t Tool) any {
		function := map[string]any{"name": t.Name, "parameters": t.Parameters}
		return map[string]any{"type": "function", "function": function}
	},
	whole: func(s *Schema, body []byte) (Answer, error) { return only(s.Completion(body, 1)) },
	chunk: func(s *Schema, body []byte) (Answer, error) { return only(s.ChatStream(bytes.NewReader(body), 1)) },
}

// Completions is POST /v1/completions, of which streams are asked for their usage, too.
var Completions = API{
	Name:  "completions",
	Path:  "/v1/completions",
	ask:   func(prompt string) map[string]any { return map[string]any{"prompt": prompt} },
	whole: func(s *Schema, body []byte) (Answer, error) { return only(s.TextCompletion(body, 1)) },
	chunk: func(s *Schema, body []byte) (Answer, error) { return only(s.TextStream(bytes.NewReader(body), 1)) },
}

// Responses is POST /v1/responses.
var Responses = API{
	Name: "responses",
	Path: "/v1/responses",
	ask:  func(prompt string) map[string]any { return map[string]any{"input": prompt, "store": false} },
	tool: func(t Tool) any {
		return map[string]any{"type": "function", "name": t.Name, "parameters": t.Parameters, "strict": false}
	},
	whole: (*Schema).Response,
	chunk: func(s *Schema, body []byte) (Answer, error) { return s.ResponseStream(bytes.NewReader(body)) },
}

func only(answers []Answer, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// Body is the body of the request.
func (a API) Body(q Question) ([]byte, error) {
	body := a.ask(q.Prompt)
	body["model"], body["stream"] = q.Model, q.Stream
	if q.Stream && (a.Name == Chat.Name || a.Name == Completions.Name) {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	switch {
	case q.Reasoning && a.reasoning != nil:
		a.reasoning(body)
	case q.Reasoning:
		body["reasoning"] = map[string]any{"summary": "auto"}
	}
	tools := make([]any, 0, len(q.Tools))
	for _, t := range q.Tools {
		tools = append(tools, a.tool(t))
	}
	if len(tools) > 0 {
		body["tools"] = tools
	}
	return json.Marshal(body)
}

// Judge checks the body of an answer with status 200.
func (a API) Judge(s *Schema, q Question, body []byte) (Answer, error) {
	if q.Stream {
		return a.chunk(s, body)
	}
	return a.whole(s, body)
}
