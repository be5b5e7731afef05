package fetch

import (
	"net/http"
	"slices"
)

// sniffLength is as much as http.DetectContentType looks at.
const sniffLength = 512

// kinds are the images that models take.
var kinds = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// kindOf is the type of the image that begins so, and empty if that is none.
// What a server says of its type is not asked.
func kindOf(data []byte) string {
	if kind := http.DetectContentType(data); slices.Contains(kinds, kind) {
		return kind
	}
	return ""
}

func notAnImage() error {
	return wrong(CodeType, "the host does not answer with a PNG, JPEG, GIF or WebP image")
}
