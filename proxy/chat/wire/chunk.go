package wire

import (
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
)

// Chunk is one event of a streamed answer.
type Chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"` // chat.completion.chunk
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []ChunkChoice `json:"choices"`
	// Usage is a *Usage, null if that is nil; a nil interface omits the member.
	Usage any `json:"usage,omitempty"`
}

// ChunkChoice is the addition of a chunk to a choice; the usage chunk has none.
type ChunkChoice struct {
	Index        int     `json:"index"`
	Delta        Delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

// Delta is the addition of a chunk.
type Delta struct {
	Role string `json:"role,omitempty"`
	// Content is a *string, null if that is nil; a nil interface omits the member.
	Content          any        `json:"content,omitempty"`
	Refusal          string     `json:"refusal,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
	FunctionCall     *Function  `json:"function_call,omitempty"`
}

// RoleChunk is the first chunk of a choice. text means that text follows, and not a call.
func (a Answer) RoleChunk(choice int, text bool) Chunk {
	var content *string
	if text {
		content = new(string)
	}
	return a.delta(choice, Delta{Role: "assistant", Content: content})
}

// TextChunk adds text.
func (a Answer) TextChunk(choice int, text string) Chunk {
	return a.delta(choice, Delta{Content: &text})
}

// TextWriter returns the writer of one choice.
func (a Answer) TextWriter(choice int) *openai.TextWriter {
	return openai.NewTextWriter(a.TextChunk(choice, ""), `"content":`)
}

// ReasoningChunk adds to the summary of the reasoning.
func (a Answer) ReasoningChunk(choice int, text string) Chunk {
	return a.delta(choice, Delta{ReasoningContent: text})
}

// RefusalChunk adds a refusal of the model.
func (a Answer) RefusalChunk(choice int, text string) Chunk {
	return a.delta(choice, Delta{Refusal: text})
}

// CallChunks add the index-th call: first its id and name, then its arguments in pieces.
func (a Answer) CallChunks(choice, index int, call clienttool.Call) []Chunk {
	chunks := []Chunk{a.delta(choice, a.callDelta(index, clienttool.Call{ID: call.ID, Name: call.Name,
		Custom: call.Custom}))}
	for piece := range openai.Pieces(call.Arguments) {
		chunks = append(chunks, a.delta(choice, a.callDelta(index, clienttool.Call{Arguments: piece,
			Custom: call.Custom})))
	}
	return chunks
}

// callDelta is a part of a call: the first one has its id and name, and the others its arguments.
func (a Answer) callDelta(index int, part clienttool.Call) Delta {
	if a.Legacy {
		return Delta{FunctionCall: &Function{Name: part.Name, Arguments: part.Arguments}}
	}
	call := chatCall(part)
	call.Index = &index
	if part.ID == "" {
		call.Type = ""
	}
	return Delta{ToolCalls: []ToolCall{call}}
}

// FinishChunk ends a choice.
func (a Answer) FinishChunk(choice int, reason string) Chunk {
	return a.chunk(ChunkChoice{Index: choice, FinishReason: &reason})
}

// UsageChunk carries the usage; it has no choices.
func (a Answer) UsageChunk(usage *openai.Usage) Chunk {
	c := a.chunk()
	c.Usage = usage
	return c
}

func (a Answer) delta(choice int, d Delta) Chunk {
	return a.chunk(ChunkChoice{Index: choice, Delta: d})
}

func (a Answer) chunk(choices ...ChunkChoice) Chunk {
	if choices == nil {
		choices = []ChunkChoice{}
	}
	c := Chunk{ID: a.ID, Object: "chat.completion.chunk", Created: a.Created, Model: a.Model, Choices: choices}
	if a.Usage {
		c.Usage = (*openai.Usage)(nil)
	}
	return c
}
