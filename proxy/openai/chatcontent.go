package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxParts bounds the parts of one message.
const maxParts = 1000

// Part is one part of a message: text, or an image.
type Part struct {
	Text  string
	Image *Image
	// At is the path of the part in the request.
	At string
}

// content is a string or a list of parts.
type content struct {
	set   bool
	text  string
	parts json.RawMessage // the value, if it is no string
}

type rawPart struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text"`
	Refusal  *string   `json:"refusal"`
	ImageURL *imageURL `json:"image_url"`
	Detail   string    `json:"detail"` // if image_url is a string
	File     *filePart `json:"file"`
}

// imageURL is an object in the OpenAI reference. Several clients send the URL alone, as for responses.
type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail"`
}

// UnmarshalJSONFrom accepts both forms.
func (u *imageURL) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() == '"' {
		return jsonv2.UnmarshalDecode(from, &u.URL)
	}
	type object imageURL
	return jsonv2.UnmarshalDecode(from, (*object)(u))
}

// UnmarshalJSONFrom accepts both forms of content. Parts are decoded later, message by message, so that the first
// invalid one ends the work.
func (c *content) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	kind := from.PeekKind()
	c.set = kind != 'n'
	if kind == '"' {
		return jsonv2.UnmarshalDecode(from, &c.text)
	}
	data, err := from.ReadValue()
	if c.set {
		c.parts = bytes.Clone(data)
	}
	return err
}

// read returns the content as parts of the allowed kinds.
func (c content) read(at string, kinds ...string) ([]Part, error) {
	switch {
	case !c.set:
		return nil, Invalid("content_required", at, at+" is required")
	case c.parts == nil:
		return []Part{{Text: c.text, At: at}}, nil
	}
	var list boundedList[rawPart]
	err := unmarshal(c.parts, &list)
	switch {
	case err != nil:
		return nil, Invalid("invalid_type", at, at+" must be a string or a list of parts")
	case len(list) == 0:
		return nil, Invalid("content_required", at, at+" must hold at least one part")
	case len(list) > maxParts:
		return nil, Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d parts", at, maxParts))
	}
	parts := make([]Part, 0, len(list))
	for i, raw := range list {
		part, err := raw.read(fmt.Sprintf("%s[%d]", at, i), kinds)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (p rawPart) read(at string, kinds []string) (Part, error) {
	if err := allowed(at, p.Type, kinds); err != nil {
		return Part{}, err
	}
	text := p.Text
	switch p.Type {
	case "image_url":
		if p.ImageURL == nil {
			return Part{}, Invalid("image_required", at+".image_url.url", at+".image_url is required")
		}
		image, err := newImage(at+".image_url", "url", p.ImageURL.URL, cmp.Or(p.ImageURL.Detail, p.Detail))
		return Part{Image: &image, At: at + ".image_url.url"}, err
	case "file":
		if p.File == nil {
			return Part{}, Invalid("field_required", at+".file", at+".file is required")
		}
		file, err := p.File.text(at + ".file")
		return Part{Text: file, At: at + ".file.file_data"}, err
	case "refusal":
		text = p.Refusal
	}
	if text == nil {
		return Part{}, Invalid("content_required", at+"."+p.Type, at+"."+p.Type+" is required")
	}
	return Part{Text: *text, At: at}, nil
}

func allowed(at, kind string, kinds []string) error {
	for _, k := range kinds {
		if k == kind {
			return nil
		}
	}
	switch kind {
	case "":
		return Invalid("content_required", at+".type", at+".type is required")
	case "file":
		return unsupported(at+".type", at+": only a user's message takes files")
	case "input_audio":
		return unsupported(at+".type", at+": audio is not supported; send a transcript")
	}
	return unsupported(at+".type", fmt.Sprintf("%s: a part of type %q is not supported here; this message takes %v", at,
		clip(kind), kinds))
}
