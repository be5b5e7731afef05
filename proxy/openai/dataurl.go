package openai

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// dataURL is a data: URL of an image, in the form that codex reads: data:image/png;base64,….
const (
	dataScheme = "data:"
	base64Mark = ";base64,"
)

// decodeDataURL returns the file in a data: URL of an image, and the URL in codex's form. Clients send other forms: the
// scheme, the type and "base64" have no case (RFC 2397, RFC 2045), parameters such as charset may stand before it, and
// base64 comes with line breaks and spaces, in the URL-safe alphabet, or without padding (RFC 4648).
func decodeDataURL(at, url string) (raw []byte, canonical string, err error) {
	head, data, ok := strings.Cut(url, ",")
	if !ok || len(head) < len(dataScheme) || !strings.EqualFold(head[:len(dataScheme)], dataScheme) ||
		!strings.EqualFold(lastParameter(head), "base64") {
		return nil, "", Invalid("invalid_image_url", at,
			at+" must be an http(s) URL or data:image/png;base64,… (png, jpeg, gif or webp)")
	}
	kind, _, _ := strings.Cut(head[len(dataScheme):], ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if !slices.Contains(imageTypes, kind) {
		return nil, "", Invalid("invalid_image_url", at,
			fmt.Sprintf("%s must be an image of type png, jpeg, gif or webp, not %q", at, clip(kind)))
	}
	if raw, err = base64.StdEncoding.Strict().DecodeString(data); err == nil && !strings.ContainsAny(data, "\r\n") &&
		head == dataScheme+kind+";base64" {
		return raw, url, nil
	}
	if raw, err = lenientBase64(data); err != nil {
		return nil, "", Invalid("invalid_image_url", at, at+" is not valid base64")
	}
	return raw, dataScheme + kind + base64Mark + base64.StdEncoding.EncodeToString(raw), nil
}

// lastParameter is what stands behind the last semicolon.
func lastParameter(head string) string {
	return strings.TrimSpace(head[strings.LastIndexByte(head, ';')+1:])
}

// lenientBase64 decodes base64 with white space, in either alphabet, with or without padding.
func lenientBase64(data string) ([]byte, error) {
	plain := strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, data)
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(plain, "="))
}
