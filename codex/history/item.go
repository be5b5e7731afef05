// Package history makes the items of a conversation, as codex injects them into a thread.
package history

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// Item is one piece of history in the form of the Responses API, verbatim. Make
// one with Message, FunctionCall or FunctionCallOutput, or convert the JSON of
// an item that a response has produced.
//
// Codex 0.169 silently drops items with role "system", items of unknown types and outputs without a call. It rejects
// refusal and input_file contents, and gives a call without an output the output "aborted".
type Item = json.RawMessage

// Content is one part of a message.
type Content struct {
	// Type is input_text or input_image (user, developer), or output_text (assistant).
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// ImageURL is a data: URL; codex does not fetch others.
	ImageURL string `json:"image_url,omitempty"`
	// Detail of an image is auto, low, high, original or empty. Codex 0.169 sends
	// "original" for all of them to models that support it. For other models it would omit an image of detail low, so
	// low is not sent.
	Detail string `json:"detail,omitempty"`
}

// The items are encoded by hand: encoding/json would read each byte of a history three more times.

// append writes the part. A text part keeps its empty text, which codex requires.
func (c Content) append(b []byte) []byte {
	if c.Type != "input_image" {
		return AppendString(AppendString(append(b, `{"type":`...), c.Type, `,"text":`), c.Text, "}")
	}
	b = AppendString(append(b, `{"type":"input_image","image_url":`...), c.ImageURL, "")
	if c.Detail != "" && c.Detail != "low" {
		b = AppendString(append(b, `,"detail":`...), c.Detail, "")
	}
	return append(b, '}')
}

func appendContents(b []byte, list []Content) []byte {
	b = append(b, '[')
	for i, c := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.append(b)
	}
	return append(b, ']')
}

// AppendString appends s as a JSON string, and then the text then. Bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, s, then string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its error only reports such bytes
	return append(b, then...)
}

// overhead is about how many bytes an item has besides its texts.
const overhead = 128

// Message is a message of role user, developer or assistant.
func Message(role string, content ...Content) Item {
	size := overhead
	for _, c := range content {
		size += len(c.Text) + len(c.Text)/8 + len(c.ImageURL) + overhead
	}
	b := AppendString(append(make([]byte, 0, size), `{"type":"message","role":`...), role, `,"content":`)
	return append(appendContents(b, content), '}')
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
	b := AppendString([]byte(`{"type":"function_call","name":`), name, `,"arguments":`)
	return AppendString(AppendString(b, arguments, `,"call_id":`), callID, "}")
}

// FunctionCallOutput is the client's answer to the call of that id.
func FunctionCallOutput(callID, output string) Item {
	return AppendString(AppendString([]byte(outputHead), callID, `,"output":`), output, "}")
}

// FunctionCallParts is FunctionCallOutput for an output of input_text and
// input_image.
func FunctionCallParts(callID string, parts ...Content) Item {
	return append(appendContents(AppendString([]byte(outputHead), callID, `,"output":`), parts), '}')
}

const outputHead = `{"type":"function_call_output","call_id":`

// Reasoning is the model's reasoning in an earlier turn. Only the account that produced it can decrypt it. Codex needs
// the empty content.
func Reasoning(summary []string, encrypted string) Item {
	b := []byte(`{"type":"reasoning","summary":[`)
	for i, text := range summary {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(append(b, `{"type":"summary_text","text":`...), text, "}")
	}
	return AppendString(append(b, `],"content":null,"encrypted_content":`...), encrypted, "}")
}
