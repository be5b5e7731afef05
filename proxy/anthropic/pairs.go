package anthropic

import (
	"fmt"
	"strings"

	"codex-proxy/proxy/openai"
)

// pairTools checks that the user's message after each call of a tool has its result, and that every result has its
// call: codex drops a result without a call, and invents a missing result. Messages of the same role in a row are one.
// Clients know the errors by Anthropic's words.
func pairTools(messages []MessageParam) error {
	p := pairs{ids: map[string]bool{}, open: map[string]bool{}}
	for i := range messages {
		var err error
		switch m := &messages[i]; m.Role {
		case roleAssistant:
			err = p.calls(m)
		case roleUser:
			err = p.results(m)
		}
		if err != nil {
			return err
		}
	}
	return p.done()
}

// pairs are the calls and results of a conversation so far.
type pairs struct {
	ids      map[string]bool // of all calls
	at       string          // the message with the last calls
	last     []string        // their ids
	open     map[string]bool // the calls without a result
	answered bool            // a user's message has followed them
}

func (p *pairs) calls(m *MessageParam) error {
	if p.answered {
		if err := p.done(); err != nil {
			return err
		}
		p.last, p.answered = p.last[:0], false
	}
	for _, b := range m.Blocks {
		if b.Type != BlockToolUse {
			continue
		}
		if p.ids[b.Call.ID] {
			return invalid(b.At, fmt.Sprintf("`tool_use` ids must be unique: %s", openai.Clip(b.Call.ID)))
		}
		p.at, p.last = m.At, append(p.last, b.Call.ID)
		p.ids[b.Call.ID], p.open[b.Call.ID] = true, true
	}
	return nil
}

func (p *pairs) results(m *MessageParam) error {
	p.answered = true
	for _, b := range m.Blocks {
		if b.Type != BlockToolResult {
			continue
		}
		id := openai.Clip(b.CallID)
		switch open, called := p.open[b.CallID]; {
		case !called:
			return openai.Invalid("tool_call_id_unknown", b.At, fmt.Sprintf("%s: unexpected `tool_use_id` found in "+
				"`tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the "+
				"previous message.", b.At, id))
		case !open:
			return openai.Invalid("tool_call_id_unknown", b.At, fmt.Sprintf("%s: each tool_use must have a single "+
				"result. Found multiple `tool_result` blocks with id: %s", b.At, id))
		}
		p.open[b.CallID] = false
	}
	return nil
}

func (p *pairs) done() error {
	var missing []string
	for _, id := range p.last {
		if p.open[id] {
			missing = append(missing, openai.Clip(id))
		}
	}
	if missing == nil {
		clear(p.open)
		return nil
	}
	return openai.Invalid("tool_result_missing", p.at,
		fmt.Sprintf("%s: `tool_use` ids were found without `tool_result` "+
			"blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next "+
			"message.", p.at, openai.Bounded(strings.Join(missing, ", "))))
}
