package media

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
)

// DataURL is a data: URL of an image, in the form that codex reads: data:image/png;base64,….
const (
	dataScheme = "data:"
	base64Mark = ";base64,"
)

// decodeDataURL returns the file in a data: URL of an image, and the URL in codex's form. Clients send other forms: the
// scheme, the type and "base64" have no case (RFC 2397, RFC 2045), parameters such as charset may stand before it, and
// base64 may have line breaks and spaces, be in the URL-safe alphabet, or without padding (RFC 4648).
func decodeDataURL(at, url string) (raw []byte, canonical string, err error) {
	head, data, ok := strings.Cut(url, ",")
	if !ok || len(head) < len(dataScheme) || !strings.EqualFold(head[:len(dataScheme)], dataScheme) ||
		!strings.EqualFold(lastParameter(head), "base64") {
		return nil, "", openai.Invalid("invalid_image_url", at,
			at+" must be an http(s) URL or data:image/png;base64,… (png, jpeg, gif or webp)")
	}
	kind, _, _ := strings.Cut(head[len(dataScheme):], ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if !slices.Contains(imageTypes, kind) {
		return nil, "", openai.Invalid("invalid_image_url", at,
			fmt.Sprintf("%s must be an image of type png, jpeg, gif or webp, not %q", at, openai.Clip(kind)))
	}
	canonical = url
	if head != dataScheme+kind+";base64" || !isPlainBase64(data) {
		canonical = plainBase64(dataScheme+kind+base64Mark, data)
	}
	raw, err = base64.StdEncoding.Strict().DecodeString(canonical[len(dataScheme+kind+base64Mark):])
	if err != nil {
		return nil, "", openai.Invalid("invalid_image_url", at, at+" is not valid base64")
	}
	return raw, canonical, nil
}

// lastParameter returns the text after the last semicolon.
func lastParameter(head string) string {
	return strings.TrimSpace(head[strings.LastIndexByte(head, ';')+1:])
}

// isPlainBase64 reports whether base64 is in the form that codex reads: the usual alphabet, with padding, in one line.
func isPlainBase64(data string) bool {
	return len(data)%4 == 0 && !strings.ContainsAny(data, " \t\r\n-_")
}

// plainBase64 is base64 in that form, behind a head. It makes no other copy: an image may be most of a request.
func plainBase64(head, data string) string {
	var b strings.Builder
	b.Grow(len(head) + len(data) + 3)
	b.WriteString(head)
	for i := range len(data) {
		switch c := data[i]; c {
		case ' ', '\t', '\r', '\n', '=':
		case '-':
			b.WriteByte('+')
		case '_':
			b.WriteByte('/')
		default:
			b.WriteByte(c)
		}
	}
	for (b.Len()-len(head))%4 != 0 {
		b.WriteByte('=')
	}
	return b.String()
}
