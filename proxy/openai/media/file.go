package media

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"codex-proxy/proxy/openai"
)

// File is a file in a message: an input_file of a response, or the member file of a chat's part.
type File struct {
	Data string `json:"file_data"` // a data: URL
	ID   string `json:"file_id"`
	URL  string `json:"file_url"`
	Name string `json:"filename"`
}

// maxFilename bounds the name of a file, in bytes. Source: NAME_MAX of Linux.
const maxFilename = 255

// textTypes are the media types of text in addition to text/* and all types that end in +json, +xml or +yaml. Clients
// that do not know the type of a file send application/octet-stream.
var textTypes = []string{
	"", "application/octet-stream", "application/json", "application/jsonl", "application/x-ndjson",
	"application/ndjson", "application/xml", "application/yaml", "application/x-yaml", "application/toml",
	"application/javascript", "application/x-javascript", "application/typescript", "application/ecmascript",
	"application/sql", "application/x-sh", "application/graphql", "application/x-tex", "application/rtf",
}

// Read is the file as the model receives it: its text between two lines with its name. at is the path of the object
// that holds the fields.
func (f File) Read(at string) (string, error) {
	switch {
	case f.ID != "":
		return "", openai.Unsupported(at+".file_id", at+": files are not kept; send the content as file_data")
	case f.URL != "":
		return "", openai.Unsupported(at+".file_url", at+": files are not fetched; send the content as file_data")
	case f.Data == "":
		return "", openai.Invalid("field_required", at+".file_data", at+".file_data is required")
	case len(f.Name) > maxFilename || strings.ContainsFunc(f.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", openai.Invalid("invalid_value", at+".filename", fmt.Sprintf(
			"%s.filename must be at most %d bytes without control characters", at, maxFilename))
	}
	name := cmp.Or(f.Name, "unnamed")
	head, tail := "[file: "+name+"]\n", "\n[end of file: "+name+"]"
	var whole strings.Builder // the only copy of the text: a file may be as large as a body
	whole.Grow(len(head) + textSize(f.Data) + len(tail))
	whole.WriteString(head)
	if err := writeText(&whole, at+".file_data", f.Data); err != nil {
		return "", err
	}
	if text := whole.String()[len(head):]; !isText(text) {
		return "", openai.Unsupported(at+".file_data", at+".file_data is not text in UTF-8; "+
			"send the text of the file, or images of its pages")
	}
	whole.WriteString(tail)
	return whole.String(), nil
}

// textSize is at least the size of the text in a data: URL, and hardly more.
func textSize(dataURL string) int {
	if head, data, _ := strings.Cut(dataURL, ","); strings.EqualFold(lastParameter(head), "base64") {
		return base64.StdEncoding.DecodedLen(len(data))
	}
	return len(dataURL)
}

// writeText writes the text in a data: URL. Source: RFC 2397.
func writeText(to *strings.Builder, at, dataURL string) error {
	head, data, ok := strings.Cut(dataURL, ",")
	if !ok || len(head) < len(dataScheme) || !strings.EqualFold(head[:len(dataScheme)], dataScheme) {
		return openai.Invalid("invalid_value", at, at+" must be a data URL: data:text/plain;base64,…")
	}
	kind, encoded := head[len(dataScheme):], strings.EqualFold(lastParameter(head), "base64")
	if encoded {
		kind = kind[:max(0, strings.LastIndexByte(kind, ';'))]
	}
	if err := checkTextType(at, kind); err != nil {
		return err
	}
	if encoded {
		if !isPlainBase64(data) {
			data = plainBase64("", data)
		}
		if _, err := io.Copy(to, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data))); err != nil {
			return openai.Invalid("invalid_value", at, at+" is not valid base64")
		}
		return nil
	}
	text, err := url.PathUnescape(data)
	if err != nil {
		return openai.Invalid("invalid_value", at,
			at+" is not a valid data URL: a % must begin an escape of two hex digits")
	}
	to.WriteString(text)
	return nil
}

// isText reports whether a file is text. Many control characters are a sign of something else. Each takes six bytes
// in JSON, for which no memory is charged.
func isText(text string) bool {
	if strings.HasPrefix(text, "%PDF-") || !utf8.ValidString(text) {
		return false
	}
	controls := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0:
			return false
		case c < ' ' && c != '\n' && c != '\t' && c != '\r':
			controls++
		}
	}
	return controls <= 8+len(text)/8
}

func checkTextType(at, kind string) error {
	media, _, err := mime.ParseMediaType(kind)
	switch {
	case kind == "", strings.HasPrefix(kind, ";"): // text/plain by default
		return nil
	case err == nil && (strings.HasPrefix(media, "text/") || slices.Contains(textTypes, media)):
		return nil
	case err == nil && slices.ContainsFunc([]string{"+json", "+xml", "+yaml"},
		func(suffix string) bool { return strings.HasSuffix(media, suffix) }) && !strings.HasPrefix(media, "image/"):
		return nil
	case strings.HasPrefix(media, "image/"):
		return openai.Unsupported(at, fmt.Sprintf("%s: an image (%s) is no file here; send it as an image part", at,
			openai.Clip(media)))
	}
	return openai.Unsupported(at, fmt.Sprintf(
		"%s: files of type %q are not read; send text (text/*, JSON, XML, YAML), or images of the pages", at, openai.Clip(kind)))
}
