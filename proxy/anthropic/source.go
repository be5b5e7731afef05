package anthropic

import (
	"bytes"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/media"
)

// source is where the data of an image or a document is; of a search result it is text.
type source struct {
	text string
	rawSource
}

type rawSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      data   `json:"data"`
	URL       string `json:"url"`
	FileID    string `json:"file_id"`
	Content   nested `json:"content"`
}

// UnmarshalJSONFrom accepts both forms.
func (s *source) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() == '"' {
		return jsonv2.UnmarshalDecode(from, &s.text)
	}
	return jsonv2.UnmarshalDecode(from, &s.rawSource)
}

// data is text, or an image in base64, of which it makes a data: URL at once: another copy of an image counts.
type data struct {
	text  string // with the head of a data: URL, if it is an image
	image string // that head
}

// imageHeads are the heads of data: URLs for images, by the beginning of their base64.
var imageHeads = []struct{ begin, head string }{
	{"iVBORw0KGgo", "data:image/png;base64,"}, {"/9j/", "data:image/jpeg;base64,"},
	{"R0lGOD", "data:image/gif;base64,"}, {"UklGR", "data:image/webp;base64,"},
}

// UnmarshalJSONFrom reads a string.
func (d *data) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '"' {
		return jsonv2.UnmarshalDecode(from, &d.text)
	}
	quoted, err := from.ReadValue()
	if err != nil {
		return err
	}
	text := []byte(quoted[1 : len(quoted)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		text, _ = jsontext.AppendUnquote(nil, quoted) // it has been read
	}
	for _, image := range imageHeads {
		if bytes.HasPrefix(text, []byte(image.begin)) {
			d.image = image.head
		}
	}
	var whole strings.Builder
	whole.Grow(len(d.image) + len(text))
	whole.WriteString(d.image)
	whole.Write(text)
	d.text = whole.String()
	return nil
}

// plain is the text without the head of a data: URL.
func (d data) plain() string { return d.text[len(d.image):] }

// image is the image of a source. Its type is read from its data, as a wrong media_type does no harm.
func (s *source) image(at string) ([]media.Part, error) {
	field, url := "data", s.Data.text
	switch s.Type {
	case "base64":
		if s.Data.text == "" {
			return nil, required(at + ".data")
		}
		if s.Data.image == "" {
			url = "data:" + s.MediaType + ";base64," + s.Data.text
		}
	case "url":
		field, url = "url", s.URL
		if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
			return nil, invalid(at+".url", "must be an http(s) URL")
		}
	default:
		return nil, s.unknown(at)
	}
	image, err := media.NewImage(at, field, url, "")
	return []media.Part{{Image: image, At: at}}, err
}

// notRead stands for a PDF that a tool of the client has read: the model can help itself, and the conversation goes on.
// A PDF that no tool has read is refused; see blockReader.content.
const notRead = "(This document is a PDF, which cannot be read here. " +
	"Get its text with another tool, such as pdftotext, or images of its pages.)"

// document is the text of a source.
func (s *source) document(at string) ([]media.Part, error) {
	switch s.Type {
	case "text":
		return []media.Part{{Text: s.Data.plain(), At: at}}, nil
	case "content":
		return s.Content.read(at)
	case "base64", "url":
		return []media.Part{{Text: notRead, At: at}}, nil
	}
	return nil, s.unknown(at)
}

// isPDF reports whether the source of a document is a PDF.
func (s *source) isPDF() bool { return s.Type == "base64" || s.Type == "url" }

func (s *source) unknown(at string) error {
	switch s.Type {
	case "":
		return required(at + ".type")
	case "file":
		return unsupported(at, at+": files are not kept; send the data itself")
	}
	return unsupported(at+".type", fmt.Sprintf("%s.type: sources of type %q are not supported", at,
		openai.Clip(s.Type)))
}
