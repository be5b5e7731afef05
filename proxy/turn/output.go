package turn

import (
	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
)

// output is the output of the model in the attempts of a turn. It belongs to the goroutine of Run.
type output struct {
	committed bool                     // some was sent to the client
	acted     bool                     // the model called a tool in some attempt
	items     []appserver.ResponseItem // of this attempt
}

// produced records an item, and reports whether it is more than words: it may have had an
// effect that must not happen twice.
func (o *output) produced(item appserver.ResponseItem) (acted bool) {
	acted = item.Type != "message" && item.Type != "reasoning"
	o.acted = o.acted || acted
	o.items = append(o.items, item)
	return acted
}

// repeatable reports whether nothing happened yet that must not happen twice.
func (o *output) repeatable() bool { return !o.committed && !o.acted }

// repeated is the part of the attempt's answer that a client repeats in its next
// request, as an endpoint puts it into a history; nil if it is not certain. Reasoning
// is not repeated, and stays in the thread.
func (o *output) repeated() (answer []history.Item) {
	for _, made := range o.items {
		var item struct {
			Content []history.Content `json:"content"`
		}
		switch err := made.Decode(&item); {
		case err == nil && made.Type == "reasoning":
		case err == nil && made.Type == "message" && answer == nil && len(item.Content) == 1 &&
			item.Content[0].Type == "output_text":
			answer = []history.Item{history.TextMessage("assistant", item.Content[0].Text)}
		default:
			return nil
		}
	}
	return answer
}
