package openai

// ChatCompletion is the whole answer of POST /v1/chat/completions.
type ChatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"` // chat.completion
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices"`
	Usage   *Usage       `json:"usage,omitempty"`
}

// ChatChoice is the one choice of a ChatCompletion.
type ChatChoice struct {
	Index        int         `json:"index"`
	Message      ChatMessage `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"` // always null
	FinishReason string      `json:"finish_reason"`
}

// ChatMessage is what the model said.
type ChatMessage struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"` // always null
}

// ChatChunk is one event of a streamed answer.
type ChatChunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"` // chat.completion.chunk
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []ChunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage,omitempty"`
}

// ChunkChoice is the one choice of a ChatChunk; the usage chunk has none.
type ChunkChoice struct {
	Index        int     `json:"index"`
	Delta        Delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

// Delta is what a chunk adds.
type Delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
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

// Finish reasons.
const (
	FinishStop          = "stop"
	FinishToolCalls     = "tool_calls"
	FinishLength        = "length"
	FinishContentFilter = "content_filter"
)

// Answer gives every part of one answer the same id, time and model.
type Answer struct {
	ID      string // chatcmpl-…
	Created int64  // Unix seconds
	Model   string
}

// Completion is the whole answer.
func (a Answer) Completion(text, finish string, usage *Usage) ChatCompletion {
	return ChatCompletion{
		ID: a.ID, Object: "chat.completion", Created: a.Created, Model: a.Model, Usage: usage,
		Choices: []ChatChoice{{Message: ChatMessage{Role: "assistant", Content: text}, FinishReason: finish}},
	}
}

// RoleChunk is the first chunk of a stream.
func (a Answer) RoleChunk() ChatChunk {
	empty := ""
	return a.chunk(ChunkChoice{Delta: Delta{Role: "assistant", Content: &empty}})
}

// TextChunk adds text.
func (a Answer) TextChunk(text string) ChatChunk {
	return a.chunk(ChunkChoice{Delta: Delta{Content: &text}})
}

// FinishChunk ends the choice.
func (a Answer) FinishChunk(reason string) ChatChunk {
	return a.chunk(ChunkChoice{FinishReason: &reason})
}

// UsageChunk carries the usage; it has no choices.
func (a Answer) UsageChunk(usage *Usage) ChatChunk {
	c := a.chunk()
	c.Usage = usage
	return c
}

func (a Answer) chunk(choices ...ChunkChoice) ChatChunk {
	if choices == nil {
		choices = []ChunkChoice{}
	}
	return ChatChunk{ID: a.ID, Object: "chat.completion.chunk", Created: a.Created, Model: a.Model, Choices: choices}
}
