package wire

import (
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
)

func readMessages(raw []rawMessage) ([]Message, error) {
	switch {
	case len(raw) == 0:
		return nil, openai.Invalid("messages_required", "messages", "messages must hold at least one message")
	case len(raw) > jsonbody.MaxList:
		return nil, openai.Invalid("invalid_value", "messages",
			fmt.Sprintf("messages must not hold more than %d messages", jsonbody.MaxList))
	}
	messages := make([]Message, 0, len(raw))
	for i, m := range raw {
		message, err := m.validate(messageAt(i))
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	return messages, pairCalls(messages)
}

func messageAt(i int) string { return fmt.Sprintf("messages[%d]", i) }

// pairCalls checks that the messages after every call answer it, and that every answer has its call: codex drops an
// answer without a call, and invents a missing answer. It adds ids to the legacy form, which has none.
func pairCalls(messages []Message) error {
	var open openCalls
	for i := range messages {
		m := &messages[i]
		if m.Role == "function" {
			if err := open.answerByName(m, messageAt(i)); err != nil {
				return err
			}
			continue
		}
		if m.Role == "tool" {
			if err := open.answer(m.CallID, messageAt(i)); err != nil {
				return err
			}
			continue
		}
		if err := open.done(); err != nil {
			return err
		}
		if err := open.begin(m, i); err != nil {
			return err
		}
	}
	return open.done()
}

// openCalls are the calls of one assistant message.
type openCalls struct {
	at    string
	field string // tool_calls or function_call
	calls []clienttool.Call
	by    map[string]string // id → the message that answers it; empty if none has yet
}

func (o *openCalls) begin(m *Message, i int) error {
	*o = openCalls{at: messageAt(i), field: "tool_calls", calls: m.Calls, by: map[string]string{}}
	for j := range m.Calls {
		c := &m.Calls[j]
		if c.ID == "" { // the legacy form
			o.field = "function_call"
			c.ID = fmt.Sprintf("call_of_message_%d", i)
		}
		if _, duplicateAt := o.by[c.ID]; duplicateAt {
			at := fmt.Sprintf("%s.tool_calls[%d].id", o.at, j)
			return openai.Invalid("invalid_value", at,
				fmt.Sprintf("%s: %q is the id of another call of this message, too", at, openai.Clip(c.ID)))
		}
		o.by[c.ID] = ""
	}
	return nil
}

func (o *openCalls) answer(id, at string) error {
	param := at + ".tool_call_id"
	earlier, called := o.by[id]
	switch {
	case id == "":
		return openai.Invalid("tool_call_id_required", param, param+" is required")
	case !called:
		return openai.Invalid("tool_call_id_unknown", param,
			fmt.Sprintf(
				"%s: the assistant message before it has no call with the id %q; "+
					"tool messages follow the message whose calls they answer", at, openai.Clip(id)))
	case earlier != "":
		return openai.Invalid("tool_call_id_unknown", param,
			fmt.Sprintf("%s: the call %q was answered by %s", at, openai.Clip(id), earlier))
	}
	o.by[id] = at
	return nil
}

// answerByName is answer for the legacy form, which names the function instead of the call.
func (o *openCalls) answerByName(m *Message, at string) error {
	if len(o.calls) != 1 || o.calls[0].Name != m.Name {
		return openai.Invalid("tool_call_id_unknown", at+".name",
			fmt.Sprintf("%s: the assistant message before it has no function_call of %q", at, openai.Clip(m.Name)))
	}
	m.Role, m.Name, m.CallID = "tool", "", o.calls[0].ID
	return o.answer(m.CallID, at)
}

func (o *openCalls) done() error {
	for _, c := range o.calls {
		if o.by[c.ID] == "" {
			return openai.Invalid("tool_result_missing", o.at+"."+o.field,
				fmt.Sprintf("%s: no tool message right after it answers the call %q", o.at, openai.Clip(c.ID)))
		}
	}
	return nil
}
