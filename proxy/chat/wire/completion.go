package wire

import (
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
)

// Completion is the whole answer of POST /v1/chat/completions.
type Completion struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"` // chat.completion
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []Choice      `json:"choices"`
	Usage   *openai.Usage `json:"usage,omitempty"`
}

// Choice is one choice of a Completion.
type Choice struct {
	Index        int       `json:"index"`
	Message      Answered  `json:"message"`
	Logprobs     *struct{} `json:"logprobs"` // always null
	FinishReason string    `json:"finish_reason"`
}

// Answered is the text and the calls of the model. Nil content, without text, is null.
type Answered struct {
	Role             string     `json:"role"` // assistant
	Content          *string    `json:"content"`
	Refusal          *string    `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
	FunctionCall     *Function  `json:"function_call,omitempty"` // the legacy form
}

// ToolCall is a call of a tool in an answer. In a stream the first piece has everything but the arguments, which
// follow with the same index.
type ToolCall struct {
	Index    *int        `json:"index,omitempty"` // in streams only
	ID       string      `json:"id,omitempty"`
	Type     string      `json:"type,omitempty"` // function or custom
	Function *Function   `json:"function,omitempty"`
	Custom   *CustomTool `json:"custom,omitempty"`
}

// Function is a called function.
type Function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// CustomTool is a called custom tool.
type CustomTool struct {
	Name  string `json:"name,omitempty"`
	Input string `json:"input"` // text, as the model wrote it
}

// chatCall is a call, or a piece of one, with a name or an input or both.
func chatCall(call clienttool.Call) ToolCall {
	if call.Custom {
		return ToolCall{ID: call.ID, Type: "custom", Custom: &CustomTool{call.Name, call.Arguments}}
	}
	return ToolCall{ID: call.ID, Type: "function", Function: &Function{call.Name, call.Arguments}}
}

// chatCalls are calls in the form of a whole answer.
func chatCalls(calls []clienttool.Call) []ToolCall {
	var list []ToolCall
	for _, c := range calls {
		list = append(list, chatCall(c))
	}
	return list
}

// Answer gives every part of one answer the same id, time and model.
type Answer struct {
	ID      string // chatcmpl-…
	Created int64  // Unix seconds
	Model   string
	// Legacy puts a call of a tool into function_call.
	Legacy bool
	// Usage adds a last chunk with the usage to the stream; the usage of all other chunks is then null.
	Usage bool
}

// ChoiceContent is the content of one choice of a whole answer.
type ChoiceContent struct {
	Text, Reasoning, Refusal string
	Calls                    []clienttool.Call
	Finish                   string
}

// Completion is the whole answer.
func (a Answer) Completion(choices []ChoiceContent, usage *openai.Usage) Completion {
	c := Completion{ID: a.ID, Object: "chat.completion", Created: a.Created, Model: a.Model, Usage: usage}
	for i, content := range choices {
		c.Choices = append(c.Choices, Choice{Index: i, Message: a.message(content), FinishReason: content.Finish})
	}
	return c
}

func (a Answer) message(content ChoiceContent) Answered {
	m := Answered{Role: "assistant", ReasoningContent: content.Reasoning}
	if content.Text != "" || len(content.Calls) == 0 && content.Refusal == "" {
		m.Content = &content.Text
	}
	if content.Refusal != "" {
		m.Refusal = &content.Refusal
	}
	calls := chatCalls(content.Calls)
	if a.Legacy && len(calls) > 0 {
		m.FunctionCall = calls[0].Function
	} else {
		m.ToolCalls = calls
	}
	return m
}
