package openai

import "encoding/json"

// TextCompletion is the answer of POST /v1/completions, or a chunk of a streamed one.
type TextCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"` // text_completion
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []TextChoice `json:"choices"`
	// Usage is a *Usage, null if that is nil; a nil interface omits the member.
	Usage any `json:"usage,omitempty"`
}

// TextChoice is one choice of a TextCompletion, or the addition of a chunk to it.
type TextChoice struct {
	Text         string    `json:"text"`
	Index        int       `json:"index"`
	Logprobs     *struct{} `json:"logprobs"`      // always null
	FinishReason *string   `json:"finish_reason"` // null before the last chunk
}

// TextAnswer gives every part of one completion the same id, time and model.
type TextAnswer struct {
	ID      string // cmpl-…
	Created int64  // Unix seconds
	Model   string
	// Usage adds a last chunk with the usage to the stream; the usage of all other chunks is then null.
	Usage bool
}

// TextChunk adds text to a choice.
func (a TextAnswer) TextChunk(choice int, text string) TextCompletion {
	return a.chunk(TextChoice{Index: choice, Text: text})
}

// TextWriter returns the writer of one choice.
func (a TextAnswer) TextWriter(choice int) *TextWriter {
	data, err := json.Marshal(a.TextChunk(choice, ""))
	if err != nil { // it holds strings and numbers
		panic(err)
	}
	return newTextWriter(data, `"text":`)
}

// FinishChunk ends a choice.
func (a TextAnswer) FinishChunk(choice int, reason string) TextCompletion {
	return a.chunk(TextChoice{Index: choice, FinishReason: &reason})
}

// UsageChunk carries the usage; it has no choices.
func (a TextAnswer) UsageChunk(usage *Usage) TextCompletion {
	c := a.chunk()
	c.Usage = usage
	return c
}

// Completion is the whole answer. A usage that is not known counts nothing: LangChain's
// OpenAI fails without one (langchain-openai 1.7, _update_token_usage).
func (a TextAnswer) Completion(choices []TextChoice, usage *Usage) TextCompletion {
	c := a.chunk(choices...)
	if usage == nil {
		usage = &Usage{}
	}
	c.Usage = usage
	return c
}

func (a TextAnswer) chunk(choices ...TextChoice) TextCompletion {
	if choices == nil {
		choices = []TextChoice{}
	}
	c := TextCompletion{ID: a.ID, Object: "text_completion", Created: a.Created, Model: a.Model, Choices: choices}
	if a.Usage {
		c.Usage = (*Usage)(nil)
	}
	return c
}
