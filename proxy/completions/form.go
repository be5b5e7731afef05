package completions

import (
	chatwire "codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/completions/wire"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
)

// form is the form of POST /v1/completions, which has text alone.
type form struct {
	wire.Answer
	echo string // precedes the text of each choice
}

// Opening implements chat.Form.
func (f form) Opening(choice int, _ bool) []any {
	if f.echo == "" {
		return nil
	}
	return []any{f.TextChunk(choice, f.echo)}
}

// Reasoning implements chat.Form.
func (f form) Reasoning(int, string) []any { return nil }

// Call implements chat.Form. The model has no tools of the client.
func (f form) Call(int, int, clienttool.Call) []any { return nil }

// Ending implements chat.Form.
func (f form) Ending(choice int, finish, refusal string) []any {
	return []any{f.FinishChunk(choice, finishOf(finish, refusal))}
}

// Usage implements chat.Form.
func (f form) Usage(usage *openai.Usage) any { return f.UsageChunk(usage) }

// Whole implements chat.Form.
func (f form) Whole(choices []chatwire.ChoiceContent, usage *openai.Usage) any {
	texts := make([]wire.Choice, len(choices))
	for i, c := range choices {
		finish := finishOf(c.Finish, c.Refusal)
		texts[i] = wire.Choice{Index: i, Text: f.echo + c.Text, FinishReason: &finish}
	}
	return f.Completion(texts, usage)
}

// finishOf is the finish_reason of a choice. There is no field for a refusal.
func finishOf(finish, refusal string) string {
	if refusal != "" {
		return openai.FinishContentFilter
	}
	return finish
}
