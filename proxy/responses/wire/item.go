package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

// Item is an item of a conversation, of the input or the output. Type determines the fields that are set; the JSON
// names are the API's.
type Item struct {
	Type      string            `json:"type"`
	ID        string            `json:"id,omitempty"`
	Status    string            `json:"status,omitempty"`
	Role      string            `json:"role,omitempty"`
	Content   []ItemPart        `json:"content,omitzero"` // of a message: not nil
	Summary   []SummaryPart     `json:"summary,omitzero"` // of reasoning: not nil
	Encrypted string            `json:"encrypted_content,omitempty"`
	CallID    string            `json:"call_id,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name,omitempty"`
	Arguments Arguments         `json:"arguments,omitzero"`
	Input     *string           `json:"input,omitzero"` // of a custom_tool_call: not nil
	Output    *ItemOutput       `json:"output,omitzero"`
	Execution string            `json:"execution,omitempty"` // client, of a tool_search
	Tools     []json.RawMessage `json:"tools,omitzero"`      // of additional_tools and tool_search_output: not nil
	Update    *Update           `json:",embed"`              // of a configuration_update
}

// DecodeItem reads an item that has been checked before.
func DecodeItem(data []byte) (item Item, err error) {
	err = jsonbody.Unmarshal(data, &item)
	return item, err
}

// Encode is the item as JSON.
func (i Item) Encode() (json.RawMessage, error) { return jsonv2.Marshal(i, jsonbody.AllowDuplicates) }

var idPrefixes = map[string]string{
	ItemMessage: "msg_", ItemReasoning: "rs_", ItemFunction: "fc_", "function_call_output": "fco_",
	ItemCustomCall: "ctc_", "custom_tool_call_output": "ctco_", "additional_tools": "at_",
	ItemSearchCall: "tsc_", "tool_search_output": "tso_", ItemCompaction: "cmp_", ItemUpdate: "cu_",
}

// CustomInput is the input of a custom_tool_call; empty for other items.
func (i Item) CustomInput() string {
	if i.Input == nil {
		return ""
	}
	return *i.Input
}

// IDPrefix begins the ids of such items.
func (i Item) IDPrefix() string { return idPrefixes[i.Type] }

// Size is about how many bytes the item has.
func (i Item) Size() int {
	size := len(i.Encrypted) + len(i.Arguments.Text) + len(i.CustomInput()) + i.Update.size()
	for _, part := range i.Summary {
		size += partSize + len(part.Text)
	}
	for _, tool := range i.Tools {
		size += len(tool)
	}
	parts := i.Content
	if i.Output != nil && i.Output.Text != nil {
		size += len(*i.Output.Text)
	} else if i.Output != nil {
		parts = i.Output.Parts
	}
	for _, part := range parts {
		size += partSize + len(part.Text)
		if part.Type == partOutput {
			size += len(`"annotations":[],`)
		}
		if part.Image != nil {
			size += len(part.Image.URL)
		}
	}
	return size
}

// Text is the text of a message, all parts together.
func (i Item) Text() string {
	var texts []string
	for _, part := range i.Content {
		if part.Image == nil {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Images are the images of an item, a message or the output of a tool. at is the path of the item in the request.
func (i Item) Images(at string) (list []media.PlacedImage) {
	add := func(at string, parts []ItemPart) {
		for n, part := range parts {
			if part.Image != nil {
				list = append(list, media.PlacedImage{At: fmt.Sprintf("%s[%d].image_url", at, n), Image: part.Image})
			}
		}
	}
	add(at+".content", i.Content)
	if i.Output != nil {
		add(at+".output", i.Output.Parts)
	}
	return list
}

// SummaryTexts are the parts of a summary of reasoning.
func (i Item) SummaryTexts() []string {
	texts := make([]string, 0, len(i.Summary))
	for _, part := range i.Summary {
		texts = append(texts, part.Text)
	}
	return texts
}

// Arguments are the arguments of a call: text for a function, an object for a tool_search.
type Arguments struct {
	Text   string // JSON, as the model wrote it
	Object bool
}

// MarshalJSONTo encodes text as a string, and an object as it is.
func (a Arguments) MarshalJSONTo(to *jsontext.Encoder) error {
	if a.Object {
		return to.WriteValue(jsontext.Value(a.Text))
	}
	return to.WriteToken(jsontext.String(a.Text))
}

// UnmarshalJSONFrom reads either form.
func (a *Arguments) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if kind := from.PeekKind(); kind == '"' || kind == 'n' {
		return jsonv2.UnmarshalDecode(from, &a.Text)
	}
	object, err := from.ReadValue()
	a.Text, a.Object = string(object), true
	return err
}

// ItemOutput is the output of a tool: text, or parts.
type ItemOutput struct {
	Text  *string
	Parts []ItemPart
}

// MarshalJSONTo encodes the text or the parts.
func (o ItemOutput) MarshalJSONTo(to *jsontext.Encoder) error {
	if o.Text != nil {
		return to.WriteToken(jsontext.String(*o.Text))
	}
	return jsonv2.MarshalEncode(to, o.Parts)
}

// UnmarshalJSONFrom reads either form.
func (o *ItemOutput) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() == '"' {
		return jsonv2.UnmarshalDecode(from, &o.Text)
	}
	return jsonv2.UnmarshalDecode(from, &o.Parts)
}
