package openai

import "cmp"

// ChatCompletion is the whole answer of POST /v1/chat/completions.
type ChatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"` // chat.completion
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices"`
	Usage   *Usage       `json:"usage,omitempty"`
}

// ChatChoice is one choice of a ChatCompletion.
type ChatChoice struct {
	Index        int         `json:"index"`
	Message      ChatMessage `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"` // always null
	FinishReason string      `json:"finish_reason"`
}

// ChatMessage is the text and the calls of the model. Nil content, without text, is null.
type ChatMessage struct {
	Role             string         `json:"role"` // assistant
	Content          *string        `json:"content"`
	Refusal          *string        `json:"refusal"`
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	ToolCalls        []ChatToolCall `json:"tool_calls,omitempty"`
	FunctionCall     *ChatFunction  `json:"function_call,omitempty"` // the legacy form
}

// ChatToolCall is a call of a tool in an answer. In a stream the first piece has everything but the arguments, which
// follow with the same index.
type ChatToolCall struct {
	Index    *int            `json:"index,omitempty"` // in streams only
	ID       string          `json:"id,omitempty"`
	Type     string          `json:"type,omitempty"` // function or custom
	Function *ChatFunction   `json:"function,omitempty"`
	Custom   *ChatCustomTool `json:"custom,omitempty"`
}

// ChatFunction is a called function.
type ChatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// ChatCustomTool is a called custom tool.
type ChatCustomTool struct {
	Name  string `json:"name,omitempty"`
	Input string `json:"input"` // text, as the model wrote it
}

// chatCall is a call, or a piece of one, with a name or an input or both.
func chatCall(call ToolCall) ChatToolCall {
	if call.Custom {
		return ChatToolCall{ID: call.ID, Type: "custom", Custom: &ChatCustomTool{call.Name, call.Arguments}}
	}
	return ChatToolCall{ID: call.ID, Type: "function", Function: &ChatFunction{call.Name, call.Arguments}}
}

// chatCalls are calls in the form of a whole answer.
func chatCalls(calls []ToolCall) []ChatToolCall {
	var list []ChatToolCall
	for _, c := range calls {
		list = append(list, chatCall(c))
	}
	return list
}

// Usage counts tokens as the worker reported them.
type Usage struct {
	PromptTokens            int64             `json:"prompt_tokens"`
	CompletionTokens        int64             `json:"completion_tokens"`
	TotalTokens             int64             `json:"total_tokens"`
	PromptTokensDetails     PromptDetails     `json:"prompt_tokens_details"`
	CompletionTokensDetails CompletionDetails `json:"completion_tokens_details"`
}

// PromptDetails splits PromptTokens.
type PromptDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

// CompletionDetails splits CompletionTokens.
type CompletionDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// Plus is the sum of two usages; nil counts nothing.
func (u *Usage) Plus(v *Usage) *Usage {
	if u == nil || v == nil {
		return cmp.Or(u, v)
	}
	return &Usage{
		PromptTokens: u.PromptTokens + v.PromptTokens, CompletionTokens: u.CompletionTokens +
			v.CompletionTokens, TotalTokens: u.TotalTokens + v.TotalTokens,
		PromptTokensDetails: PromptDetails{u.PromptTokensDetails.CachedTokens + v.PromptTokensDetails.CachedTokens},
		CompletionTokensDetails: CompletionDetails{
			u.CompletionTokensDetails.ReasoningTokens + v.CompletionTokensDetails.ReasoningTokens},
	}
}

// Finish reasons.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishContentFilter = "content_filter"
	FinishToolCalls     = "tool_calls"
	FinishFunctionCall  = "function_call" // the legacy form of FinishToolCalls
)

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
	Calls                    []ToolCall
	Finish                   string
}

// Completion is the whole answer.
func (a Answer) Completion(choices []ChoiceContent, usage *Usage) ChatCompletion {
	c := ChatCompletion{ID: a.ID, Object: "chat.completion", Created: a.Created, Model: a.Model, Usage: usage}
	for i, content := range choices {
		c.Choices = append(c.Choices, ChatChoice{Index: i, Message: a.message(content), FinishReason: content.Finish})
	}
	return c
}

func (a Answer) message(content ChoiceContent) ChatMessage {
	m := ChatMessage{Role: "assistant", ReasoningContent: content.Reasoning}
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
