package wire

import (
	"codex-proxy/proxy/openai"
)

// Completion is the answer of POST /v1/completions, or a chunk of a streamed one.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"` // text_completion
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	// Usage is a *Usage, null if that is nil; a nil interface omits the member.
	Usage any `json:"usage,omitempty"`
}

// Choice is one choice of a Completion, or the addition of a chunk to it.
type Choice struct {
	Text         string    `json:"text"`
	Index        int       `json:"index"`
	Logprobs     *struct{} `json:"logprobs"`      // always null
	FinishReason *string   `json:"finish_reason"` // null before the last chunk
}

// Answer gives every part of one completion the same id, time and model.
type Answer struct {
	ID      string // cmpl-…
	Created int64  // Unix seconds
	Model   string
	// Usage adds a last chunk with the usage to the stream; the usage of all other chunks is then null.
	Usage bool
}

// TextChunk adds text to a choice.
func (a Answer) TextChunk(choice int, text string) Completion {
	return a.chunk(Choice{Index: choice, Text: text})
}

// TextWriter returns the writer of one choice.
func (a Answer) TextWriter(choice int) *openai.TextWriter {
	return openai.NewTextWriter(a.TextChunk(choice, ""), `"text":`)
}

// FinishChunk ends a choice.
func (a Answer) FinishChunk(choice int, reason string) Completion {
	return a.chunk(Choice{Index: choice, FinishReason: &reason})
}

// UsageChunk carries the usage; it has no choices.
func (a Answer) UsageChunk(usage *openai.Usage) Completion {
	c := a.chunk()
	c.Usage = usage
	return c
}

// Completion is the whole answer. A usage that is not known counts nothing: LangChain's
// OpenAI fails without one (langchain-openai 1.7, _update_token_usage).
func (a Answer) Completion(choices []Choice, usage *openai.Usage) Completion {
	c := a.chunk(choices...)
	if usage == nil {
		usage = &openai.Usage{}
	}
	c.Usage = usage
	return c
}

func (a Answer) chunk(choices ...Choice) Completion {
	if choices == nil {
		choices = []Choice{}
	}
	c := Completion{ID: a.ID, Object: "text_completion", Created: a.Created, Model: a.Model, Choices: choices}
	if a.Usage {
		c.Usage = (*openai.Usage)(nil)
	}
	return c
}
