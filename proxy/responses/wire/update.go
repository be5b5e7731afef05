package wire

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// ItemUpdate is the type of an item that changes settings of all responses after it, until another such item changes
// them again. Source: OpenAI API reference, "configuration_update".
const ItemUpdate = "configuration_update"

// Update is the content of such an item.
type Update struct {
	Reasoning *UpdatedReasoning `json:"reasoning,omitempty"`
	Text      *UpdatedText      `json:"text,omitempty"`
}

// UpdatedReasoning has the effort; empty: it stays.
type UpdatedReasoning struct {
	Effort string `json:"effort,omitempty"`
}

// UpdatedText has the format, as text.format of a request.
type UpdatedText struct {
	Format json.RawMessage `json:"format"`
}

// addUpdate adds a configuration_update of the input. It counts before the parameters of the request, and a later one
// before it.
func (s *items) addUpdate(raw rawItem, at string) error {
	update, err := raw.update(at)
	if err != nil {
		return err
	}
	s.append(at, Item{Type: ItemUpdate, ID: raw.ID, Update: update})
	if effort := update.effort(); effort != "" {
		s.effort = effort
		if err := parameter.CheckEffort(at+".reasoning.effort", effort); err != nil {
			return err
		}
	}
	if update.Text == nil {
		return nil
	}
	if jsonbody.IsUnset(update.Text.Format) {
		return openai.Invalid("field_required", at+".text.format", at+".text.format is required")
	}
	s.textFormat = update.Text.Format
	s.format, err = readFormat(s.textFormat, at+".text.format")
	return err
}

// update is the content of a configuration_update.
func (raw *rawItem) update(at string) (*Update, error) {
	update := &Update{}
	for _, member := range []struct {
		name  string
		value json.RawMessage
		to    any
	}{{"reasoning", raw.Reasoning, &update.Reasoning}, {"text", raw.Text, &update.Text}} {
		if jsonbody.IsNull(member.value) {
			continue
		}
		if err := jsonbody.Unmarshal(member.value, member.to); err != nil {
			at := at + "." + member.name
			return nil, openai.Invalid("invalid_type", at, at+" must be an object, as the reference has it")
		}
	}
	return update, nil
}

// ApplyUpdates applies the items configuration_update of an earlier part of the conversation, which have been checked
// before, as far as the request has no such setting itself.
func (req *Request) ApplyUpdates(earlier []Item) {
	fixed := req.Reasoning.Effort != "" // by the request, or by the alias of its model
	for _, item := range earlier {
		if item.Update == nil || item.Type != ItemUpdate {
			continue
		}
		if effort := item.Update.effort(); effort != "" && !fixed {
			req.Reasoning.Effort = effort
		}
		if item.Update.Text != nil && !req.hasFormat {
			req.TextFormat = item.Update.Text.Format
			req.Format, _ = readFormat(req.TextFormat, "") // it has succeeded before
		}
	}
}

// EchoUpdated repeats the settings of the request in the response, after ApplyUpdates.
func (req *Request) EchoUpdated(r *Response) {
	if req.Reasoning.Effort != "" {
		r.Reasoning.Effort = new(req.Reasoning.Effort)
	}
	r.Text.Format = req.TextFormat
}

func (u *Update) effort() string {
	if u.Reasoning == nil {
		return ""
	}
	return u.Reasoning.Effort
}

func (u *Update) size() int {
	if u == nil || u.Text == nil {
		return 0
	}
	return len(u.Text.Format)
}
