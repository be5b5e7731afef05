package proxy

import (
	"strings"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// plan maps a chat request onto a turn: the system messages that open the
// history become the thread's instructions, everything after them is injected
// in its own role. A later system message becomes a developer message, the role
// that takes its place in the Responses API; codex drops "system" silently.
func plan(req *openai.ChatRequest) appserver.TurnRequest {
	instructions, history := splitInstructions(req.Messages)
	turn := appserver.TurnRequest{Model: req.Model, BaseInstructions: &instructions, Effort: req.ReasoningEffort}
	for _, m := range history {
		role := m.Role
		if role == "system" {
			role = "developer"
		}
		turn.Items = append(turn.Items, appserver.TextMessage(role, m.Text))
	}
	return turn
}

// splitInstructions keeps the last message in the history whatever its role:
// codex refuses to run a turn on an empty one.
func splitInstructions(messages []openai.Message) (string, []openai.Message) {
	n := 0
	for n < len(messages)-1 && messages[n].Role == "system" {
		n++
	}
	texts := make([]string, 0, n)
	for _, m := range messages[:n] {
		texts = append(texts, m.Text)
	}
	return strings.Join(texts, "\n\n"), messages[n:]
}
