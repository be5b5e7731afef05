package appserver

import "encoding/json"

// Item is one piece of history in the form of the Responses API, verbatim. Make
// one with Message, FunctionCall or FunctionCallOutput, or convert the JSON of
// an item that a response has produced.
//
// What codex 0.169 does with items it dislikes: role "system", unknown types and
// outputs without a call are dropped silently, refusal and input_file contents
// are rejected, a call without an output gets the output "aborted".
type Item = json.RawMessage

// Content is one part of a message.
type Content struct {
	// Type is input_text or input_image (user, developer), or output_text (assistant).
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// ImageURL is a data: URL; codex does not fetch others.
	ImageURL string `json:"image_url,omitempty"`
	// Detail of an image is auto, low, high, original or empty. Codex 0.169 sends
	// "original" for all to models that know it. For the others it would leave an
	// image of detail low out: low is not sent.
	Detail string `json:"detail,omitempty"`
}

// MarshalJSON keeps the empty text of a text part, which codex requires.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Type == "input_image" {
		if c.Detail == "low" {
			c.Detail = ""
		}
		return json.Marshal(struct {
			Type     string `json:"type"`
			ImageURL string `json:"image_url"`
			Detail   string `json:"detail,omitempty"`
		}{c.Type, c.ImageURL, c.Detail})
	}
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{c.Type, c.Text})
}

type messageItem struct {
	Type    string    `json:"type"`
	Role    string    `json:"role"`
	Content []Content `json:"content"`
}

type functionCallItem struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	CallID    string `json:"call_id"`
}

type functionCallOutputItem struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"`
}

type reasoningItem struct {
	Type      string        `json:"type"`
	Summary   []summaryText `json:"summary"`
	Content   any           `json:"content"` // codex wants the field
	Encrypted string        `json:"encrypted_content"`
}

type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Message is a message of role user, developer or assistant.
func Message(role string, content ...Content) Item {
	return item(messageItem{Type: "message", Role: role, Content: append([]Content{}, content...)})
}

// TextMessage is a message of one text part, of the type its role needs.
func TextMessage(role, text string) Item {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	return Message(role, Content{Type: kind, Text: text})
}

// FunctionCall is a model's call of a client tool; arguments is JSON in a string.
func FunctionCall(callID, name, arguments string) Item {
	return item(functionCallItem{Type: "function_call", Name: name, Arguments: arguments, CallID: callID})
}

// FunctionCallOutput is the client's answer to the call of that id.
func FunctionCallOutput(callID, output string) Item {
	return item(functionCallOutputItem{Type: "function_call_output", CallID: callID, Output: output})
}

// FunctionCallParts is FunctionCallOutput for an output of input_text and
// input_image.
func FunctionCallParts(callID string, parts ...Content) Item {
	return item(functionCallOutputItem{Type: "function_call_output", CallID: callID, Output: append([]Content{}, parts...)})
}

// Reasoning is what the model thought in an earlier turn. Only the account that
// it comes from can read what is encrypted.
func Reasoning(summary []string, encrypted string) Item {
	r := reasoningItem{Type: "reasoning", Summary: []summaryText{}, Encrypted: encrypted}
	for _, text := range summary {
		r.Summary = append(r.Summary, summaryText{"summary_text", text})
	}
	return item(r)
}

// item encodes a struct of strings, which cannot fail.
func item(v any) Item {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
