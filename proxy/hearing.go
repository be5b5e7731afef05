package proxy

import (
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// teller passes on what a choice is made of, as it comes.
type teller interface {
	text(delta string) error
	reasoning(delta string) error
	call(openai.ToolCall) error
	end(finish, refusal string) error
}

// unheard is the refusal of a model whose words codex has kept to itself.
const unheard = "The model has not given an answer, which most likely is a refusal; codex does not pass on the words of one."

// hearing makes one choice of a chat completion out of a turn. It belongs to the
// turn's goroutine.
type hearing struct {
	request *openai.ChatRequest
	to      teller
	said    bool   // there was more than reasoning
	calls   int    // that were passed on
	message string // that was heard last
	item    string // the reasoning item
	part    int    // and its paragraph that was heard last
}

// hear follows the turn to the end of the choice.
func (s *Server) hear(c *choice, turn *appserver.Turn, request *openai.ChatRequest, to teller, idle, silence func() error) error {
	h := hearing{request: request, to: to}
	l := listener{text: h.text, item: h.finished, idle: idle, silence: silence}
	if request.Reasoning.Summary != "" {
		l.reasoning = h.reasoning
	}
	finish, err := s.follow(c.ctx, turn, c.x, l)
	if err != nil {
		return err
	}
	return h.end(finish, c.x.usage)
}

// text separates the messages of an answer, which has room for one: codex lets the
// model say something before each call of codex's own tools.
func (h *hearing) text(message, delta string) error {
	h.said = true
	if delta != "" && h.message != "" && h.message != message {
		delta = "\n\n" + delta
	}
	if delta != "" {
		h.message = message
	}
	return h.to.text(delta)
}

// reasoning separates the paragraphs of a summary.
func (h *hearing) reasoning(item string, part int, delta string) error {
	if h.item != "" && (h.item != item || h.part != part) {
		delta = "\n\n" + delta
	}
	h.item, h.part = item, part
	return h.to.reasoning(delta)
}

// finished takes the calls from the finished items. A call of what the client
// does not have, codex has answered by itself.
func (h *hearing) finished(made appserver.ResponseItem) error {
	h.said = h.said || made.Type != "reasoning"
	if made.Type != "function_call" {
		return nil
	}
	var item struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
		CallID    string `json:"call_id"`
	}
	if err := jsonv2.Unmarshal(made.Item, &item, lenient); err != nil {
		return nil // nothing that could be told to a client
	}
	if !slices.ContainsFunc(h.request.Tools, func(t openai.Tool) bool { return t.Name == item.Name }) {
		return nil
	}
	h.calls++
	if h.calls > 1 && h.request.SingleCall {
		return nil
	}
	return h.to.call(openai.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
}

// end tells a refusal from an empty answer: codex 0.169 drops a message that
// holds a refusal, deltas and all, and completes the turn.
func (h *hearing) end(finish string, usage *openai.Usage) error {
	refusal := ""
	if finish == openai.FinishStop && !h.said && h.calls == 0 && wrote(usage) {
		refusal = unheard
	}
	if finish == openai.FinishToolCalls && h.request.Legacy {
		finish = openai.FinishFunctionCall
	}
	return h.to.end(finish, refusal)
}

// wrote reports whether the model wrote more than its reasoning.
func wrote(u *openai.Usage) bool {
	return u != nil && u.CompletionTokens > u.CompletionTokensDetails.ReasoningTokens
}
