package wire

import (
	"cmp"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

// maxParts bounds the parts of one message.
const maxParts = 1000

type rawPart struct {
	Type     string      `json:"type"`
	Text     *string     `json:"text"`
	Refusal  *string     `json:"refusal"`
	ImageURL *imageURL   `json:"image_url"`
	Detail   string      `json:"detail"` // if image_url is a string
	File     *media.File `json:"file"`
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

// readContent returns the content as parts of the allowed kinds.
func readContent(c jsonbody.Content, at string, kinds ...string) ([]media.Part, error) {
	switch {
	case !c.Set:
		return nil, openai.Invalid("content_required", at, at+" is required")
	case c.Parts == nil:
		return []media.Part{{Text: c.Text, At: at}}, nil
	}
	var list jsonbody.List[rawPart]
	err := jsonbody.Unmarshal(c.Parts, &list)
	switch {
	case err != nil:
		return nil, openai.Invalid("invalid_type", at, at+" must be a string or a list of parts")
	case len(list) == 0:
		return nil, openai.Invalid("content_required", at, at+" must hold at least one part")
	case len(list) > maxParts:
		return nil, openai.Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d parts", at,
			maxParts))
	}
	parts := make([]media.Part, 0, len(list))
	for i, raw := range list {
		part, err := raw.read(fmt.Sprintf("%s[%d]", at, i), kinds)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (p rawPart) read(at string, kinds []string) (media.Part, error) {
	if err := allowed(at, p.Type, kinds); err != nil {
		return media.Part{}, err
	}
	text := p.Text
	switch p.Type {
	case "image_url":
		if p.ImageURL == nil {
			return media.Part{}, openai.Invalid("image_required", at+".image_url.url", at+".image_url is required")
		}
		image, err := media.NewImage(at+".image_url", "url", p.ImageURL.URL, cmp.Or(p.ImageURL.Detail, p.Detail))
		return media.Part{Image: image, At: at + ".image_url.url"}, err
	case "file":
		if p.File == nil {
			return media.Part{}, openai.Invalid("field_required", at+".file", at+".file is required")
		}
		file, err := p.File.Read(at + ".file")
		return media.Part{Text: file, At: at + ".file.file_data"}, err
	case "refusal":
		text = p.Refusal
	}
	if text == nil {
		return media.Part{}, openai.Invalid("content_required", at+"."+p.Type, at+"."+p.Type+" is required")
	}
	return media.Part{Text: *text, At: at}, nil
}

func allowed(at, kind string, kinds []string) error {
	for _, k := range kinds {
		if k == kind {
			return nil
		}
	}
	switch kind {
	case "":
		return openai.Invalid("content_required", at+".type", at+".type is required")
	case "file":
		return openai.Unsupported(at+".type", at+": only a user's message takes files")
	case "input_audio":
		return openai.Unsupported(at+".type", at+": audio is not supported; send a transcript")
	}
	return openai.Unsupported(at+".type",
		fmt.Sprintf("%s: a part of type %q is not supported here; this message takes %v", at,
			openai.Clip(kind), kinds))
}
