package wire

import (
	"cmp"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

func textPart(role string) string {
	if role == "assistant" {
		return partOutput
	}
	return partText
}

// readParts reads text or a list of parts; kind is the type of its text parts.
func readParts(content jsonbody.Content, at, kind string) ([]ItemPart, error) {
	switch {
	case !content.Set:
		return nil, openai.Invalid("content_required", at, at+" is required")
	case content.Parts == nil:
		return []ItemPart{{Type: kind, Text: content.Text}}, nil
	}
	var raw jsonbody.List[rawItemPart]
	if jsonbody.Unmarshal(content.Parts, &raw) != nil {
		return nil, openai.Invalid("invalid_type", at, at+" must be text or a list of parts")
	}
	if len(raw) > jsonbody.MaxList {
		return nil, openai.Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d parts", at,
			jsonbody.MaxList))
	}
	parts := make([]ItemPart, 0, len(raw))
	for i, p := range raw {
		part, err := p.read(fmt.Sprintf("%s[%d]", at, i), kind)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// readSummary reads the summary of reasoning, part by part like readParts.
func readSummary(raw json.RawMessage, at string) (parts jsonbody.List[SummaryPart], err error) {
	if raw != nil && jsonbody.Unmarshal(raw, &parts) != nil {
		return nil, openai.Invalid("invalid_type", at, at+" must be a list of parts")
	}
	if len(parts) > jsonbody.MaxList {
		return nil, openai.Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d parts", at,
			jsonbody.MaxList))
	}
	for i, part := range parts {
		if part.Type != partSummary {
			at := fmt.Sprintf("%s[%d].type", at, i)
			return nil, openai.Unsupported(at, fmt.Sprintf("%s must be %s; %q is not supported", at, partSummary,
				openai.Clip(part.Type)))
		}
	}
	return parts, nil
}

func (p rawItemPart) read(at, kind string) (ItemPart, error) {
	switch p.Type {
	case partText, partOutput:
		return ItemPart{Type: kind, Text: p.Text}, nil
	case "refusal":
		return ItemPart{Type: kind, Text: p.Refusal}, nil
	case partImage:
		if kind == partOutput {
			return ItemPart{}, openai.Invalid("invalid_value", at+".type",
				at+": an assistant's message cannot hold images")
		}
		if p.ID != "" {
			return ItemPart{}, openai.Unsupported(at+".file_id", at+": files are not kept; send the image as image_url")
		}
		image, err := media.NewImage(at, "image_url", p.ImageURL, imageDetail(p.Detail))
		return ItemPart{Type: p.Type, Image: image}, err
	case "input_file":
		if kind == partOutput {
			return ItemPart{}, openai.Invalid("invalid_value", at+".type",
				at+": an assistant's message cannot hold files")
		}
		text, err := p.Read(at)
		return ItemPart{Type: kind, Text: text}, err
	default:
		return ItemPart{}, openai.Unsupported(at+".type",
			fmt.Sprintf("%s: parts of type %q are not supported; send input_text, input_image or input_file", at,
				openai.Clip(p.Type)))
	}
}

// ItemPart is a part of a message or of a tool's output: text, or an image.
type ItemPart struct {
	Type  string // input_text, output_text or input_image
	Text  string
	Image *media.Image
}

type rawItemPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
	media.File
}

// MarshalJSONTo encodes the part in the form of its type.
func (p ItemPart) MarshalJSONTo(to *jsontext.Encoder) error {
	switch {
	case p.Image != nil && p.Image.Omitted() && p.Image.Remote(): // nothing fetches it later
		return jsonv2.MarshalEncode(to, map[string]string{"type": partText, "text": media.OmittedImage},
			jsonv2.Deterministic(true))
	case p.Image != nil:
		return jsonv2.MarshalEncode(to, struct {
			Type     string `json:"type"`
			ImageURL string `json:"image_url"`
			Detail   string `json:"detail"`
		}{p.Type, p.Image.URL, cmp.Or(p.Image.Detail, detailAuto)})
	case p.Type == partOutput:
		return jsonv2.MarshalEncode(to, struct {
			Type        string     `json:"type"`
			Annotations []struct{} `json:"annotations"` // always empty
			Text        string     `json:"text"`
		}{p.Type, []struct{}{}, p.Text})
	}
	return jsonv2.MarshalEncode(to, struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{p.Type, p.Text})
}

// UnmarshalJSONFrom reads a part that has been checked before. A refusal becomes text.
func (p *ItemPart) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	var raw rawItemPart
	if err := jsonv2.UnmarshalDecode(from, &raw); err != nil {
		return err
	}
	*p = ItemPart{Type: raw.Type, Text: raw.Text}
	switch raw.Type {
	case partImage:
		p.Image = &media.Image{URL: raw.ImageURL, Detail: imageDetail(raw.Detail)}
	case "refusal":
		p.Type, p.Text = partOutput, raw.Refusal
	}
	return nil
}

const (
	partText    = "input_text"
	partOutput  = "output_text"
	partImage   = "input_image"
	partSummary = "summary_text"
	// partSize is the size of a part without its text, in JSON.
	partSize = len(`{"type":"output_text","text":""},`)
	// executionClient is the execution of a tool_search that the client runs.
	executionClient = "client"
	// detailAuto is the default of detail.
	detailAuto = "auto"
)

// imageDetail leaves the default out, so that an image is the same to codex before and after it was stored.
func imageDetail(detail string) string {
	if detail == detailAuto {
		return ""
	}
	return detail
}
