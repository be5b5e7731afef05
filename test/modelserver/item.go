package modelserver

import "fmt"

// AccountHeader is the header by which codex names the account of its login.
const AccountHeader = "Chatgpt-Account-Id"

// Encrypted is how the encrypted reasoning that an account received begins; only this account may send it back.
func Encrypted(account string) string { return "encrypted-" + account + "-" }

// at adds to an event the place of the open item.
func (s *stream) at(event map[string]any) map[string]any {
	event["item_id"], event["output_index"] = s.itemID(), len(s.output)
	return event
}

func (s *stream) itemID() string { return fmt.Sprintf("item_%s_%d", s.id, len(s.output)) }

func (s *stream) openItem(kind string) error {
	if err := s.closeItem(); err != nil {
		return err
	}
	s.item = kind
	item := map[string]any{"id": s.itemID(), "type": kind, "status": "in_progress"}
	if kind == "reasoning" {
		item["summary"] = []any{}
	} else {
		item["role"], item["content"] = "assistant", []any{}
	}
	if err := s.event("response.output_item.added",
		map[string]any{"output_index": len(s.output), "item": item}); err != nil {
		return err
	}
	if kind == "reasoning" {
		return s.event("response.reasoning_summary_part.added",
			s.at(map[string]any{"summary_index": 0, "part": map[string]any{"type": "summary_text", "text": ""}}))
	}
	return s.event("response.content_part.added",
		s.at(map[string]any{"content_index": 0, "part": map[string]any{"type": "output_text", "text": "",
			"annotations": []any{}}}))
}

func (s *stream) closeItem() error {
	if s.item == "" {
		return nil
	}
	item := map[string]any{"id": s.itemID(), "type": s.item, "status": "completed"}
	if s.item == "reasoning" {
		item["summary"] = []any{map[string]any{"type": "summary_text", "text": s.text.String()}}
		item["encrypted_content"] = Encrypted(s.account) + s.itemID()
	} else {
		item["role"] = "assistant"
		item["content"] = []any{map[string]any{"type": "output_text", "text": s.text.String(), "annotations": []any{}}}
	}
	s.item = ""
	s.text.Reset()
	return s.done(item)
}

func (s *stream) done(item map[string]any) error {
	index := len(s.output)
	s.output = append(s.output, item)
	return s.event("response.output_item.done", map[string]any{"output_index": index, "item": item})
}

func (s *stream) call(name, arguments string) error {
	item, err := s.addCall("function_call", name, "arguments")
	if err != nil {
		return err
	}
	item["status"], item["arguments"] = "completed", arguments
	if err := s.event("response.function_call_arguments.done",
		s.at(map[string]any{"arguments": arguments})); err != nil {
		return err
	}
	return s.done(item)
}

// callCustom is a call of a custom tool (OpenAI's API reference, "Custom tools").
func (s *stream) callCustom(name, input string) error {
	item, err := s.addCall("custom_tool_call", name, "input")
	if err != nil {
		return err
	}
	item["status"], item["input"] = "completed", input
	if err := s.event("response.custom_tool_call_input.done", s.at(map[string]any{"input": input})); err != nil {
		return err
	}
	return s.done(item)
}

// openCall begins a call and leaves it there.
func (s *stream) openCall(name, arguments string) error {
	if _, err := s.addCall("function_call", name, "arguments"); err != nil {
		return err
	}
	return s.event("response.function_call_arguments.delta", s.at(map[string]any{"delta": arguments}))
}

// addCall begins a call; parameters is what its kind calls them.
func (s *stream) addCall(kind, name, parameters string) (item map[string]any, err error) {
	if err := s.closeItem(); err != nil {
		return nil, err
	}
	s.calls++
	item = map[string]any{"id": s.itemID(), "type": kind, "status": "in_progress", "name": name,
		parameters: "", "call_id": fmt.Sprintf("call_%s_%d", s.id, s.calls)}
	return item, s.event("response.output_item.added", map[string]any{"output_index": len(s.output), "item": item})
}

// refuse is a message that holds nothing but a refusal.
func (s *stream) refuse(text string) error {
	if err := s.openItem("message"); err != nil {
		return err
	}
	err := s.event("response.refusal.delta", s.at(map[string]any{"content_index": 0, "delta": text}))
	if err != nil {
		return err
	}
	item := map[string]any{"id": s.itemID(), "type": "message", "status": "completed", "role": "assistant",
		"content": []any{map[string]any{"type": "refusal", "refusal": text}}}
	s.item = ""
	return s.done(item)
}
