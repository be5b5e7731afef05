package chat

import (
	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
)

// Form makes the parts of an answer in the wire form of an endpoint. Its methods may be
// called from several goroutines.
type Form interface {
	// Opening is sent before the first chunk of a choice; content states that the choice
	// has content, and not only calls.
	Opening(choice int, content bool) []any
	// TextWriter writes the chunks with the text of a choice.
	TextWriter(choice int) *openai.TextWriter
	Reasoning(choice int, text string) []any
	// Call adds the index-th call of a tool.
	Call(choice, index int, call clienttool.Call) []any
	// Ending ends a choice. An empty refusal means no refusal.
	Ending(choice int, finish, refusal string) []any
	// Usage is the last chunk of a stream.
	Usage(*openai.Usage) any
	// Whole is the answer of all choices; a nil usage is not known.
	Whole([]wire.ChoiceContent, *openai.Usage) any
}

// chatForm is the form of POST /v1/chat/completions.
type chatForm struct{ wire.Answer }

// Opening implements Form.
func (f chatForm) Opening(choice int, content bool) []any { return []any{f.RoleChunk(choice, content)} }

// Reasoning implements Form.
func (f chatForm) Reasoning(choice int, text string) []any {
	return []any{f.ReasoningChunk(choice, text)}
}

// Call implements Form.
func (f chatForm) Call(choice, index int, call clienttool.Call) (chunks []any) {
	for _, c := range f.CallChunks(choice, index, call) {
		chunks = append(chunks, c)
	}
	return chunks
}

// Ending implements Form.
func (f chatForm) Ending(choice int, finish, refusal string) (chunks []any) {
	if refusal != "" {
		chunks = append(chunks, f.RefusalChunk(choice, refusal))
	}
	return append(chunks, f.FinishChunk(choice, finish))
}

// Usage implements Form.
func (f chatForm) Usage(usage *openai.Usage) any { return f.UsageChunk(usage) }

// Whole implements Form.
func (f chatForm) Whole(choices []wire.ChoiceContent, usage *openai.Usage) any {
	return f.Completion(choices, usage)
}
