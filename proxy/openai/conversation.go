package openai

import (
	"bytes"
	"encoding/json"
)

// Item is an item of a conversation, whoever made it. Which fields are set
// depends on Type; JSON names are those of the API.
type Item struct {
	Type      string            `json:"type"`
	ID        string            `json:"id,omitempty"`
	Status    string            `json:"status,omitempty"`
	Role      string            `json:"role,omitempty"`
	Content   []ItemPart        `json:"content,omitempty"`
	Summary   []summaryPart     `json:"summary,omitempty"`
	Encrypted string            `json:"encrypted_content,omitempty"`
	CallID    string            `json:"call_id,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name,omitempty"`
	Arguments Arguments         `json:"arguments,omitzero"`
	Input     string            `json:"input,omitempty"`
	Output    *ItemOutput       `json:"output,omitempty"`
	Tools     []json.RawMessage `json:"tools,omitempty"` // of additional_tools
}

// SummaryTexts are the parts of a summary of reasoning.
func (i Item) SummaryTexts() []string {
	texts := make([]string, 0, len(i.Summary))
	for _, part := range i.Summary {
		texts = append(texts, part.Text)
	}
	return texts
}

// Arguments are those of a call: text to a function, an object to a tool_search.
type Arguments struct {
	Text   string // JSON, as the model wrote it
	Object bool
}

// MarshalJSON encodes them as text or as they are.
func (a Arguments) MarshalJSON() ([]byte, error) {
	if a.Object {
		return []byte(a.Text), nil
	}
	return json.Marshal(a.Text)
}

// UnmarshalJSON reads either form.
func (a *Arguments) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) || bytes.Equal(data, []byte("null")) {
		return json.Unmarshal(data, &a.Text)
	}
	a.Text, a.Object = string(data), true
	return nil
}

// ItemOutput is the output of a tool: text, or parts.
type ItemOutput struct {
	Text  *string
	Parts []ItemPart
}

// MarshalJSON encodes whichever there is.
func (o ItemOutput) MarshalJSON() ([]byte, error) {
	if o.Text != nil {
		return json.Marshal(*o.Text)
	}
	return json.Marshal(append([]ItemPart{}, o.Parts...))
}

// UnmarshalJSON reads either form.
func (o *ItemOutput) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &o.Text)
	}
	return json.Unmarshal(data, &o.Parts)
}

// ItemPart is a part of a message or of a tool's output: text, or an image.
type ItemPart struct {
	Type  string // input_text, output_text or input_image
	Text  string
	Image *Image
}

type rawItemPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Refusal  string `json:"refusal,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"`
	FileID   string `json:"file_id,omitempty"`
}

// MarshalJSON encodes the part as its type wants it.
func (p ItemPart) MarshalJSON() ([]byte, error) {
	if p.Image != nil {
		return json.Marshal(rawItemPart{Type: p.Type, ImageURL: p.Image.URL, Detail: p.Image.Detail})
	}
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{p.Type, p.Text})
}

// UnmarshalJSON reads a part that has been checked before. A refusal is what its
// words say.
func (p *ItemPart) UnmarshalJSON(data []byte) error {
	var raw rawItemPart
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*p = ItemPart{Type: raw.Type, Text: raw.Text}
	switch raw.Type {
	case partImage:
		p.Image = &Image{raw.ImageURL, raw.Detail}
	case "refusal":
		p.Type, p.Text = "output_text", raw.Refusal
	}
	return nil
}

const partImage = "input_image"
