package fetch

import (
	"net/http"
	"slices"
)

// sniffLength is how many bytes http.DetectContentType reads.
const sniffLength = 512

// kinds are the types of images that models accept.
var kinds = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// kindOf is the type of the image that begins with data, and empty if it is no image. The Content-Type of the server
// does not matter.
func kindOf(data []byte) string {
	if kind := http.DetectContentType(data); slices.Contains(kinds, kind) {
		return kind
	}
	return ""
}

func notAnImage() error {
	return wrong(CodeType, "the host does not answer with a PNG, JPEG, GIF or WebP image")
}
