package openai

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"  // decoders of
	_ "image/jpeg" // the headers
	_ "image/png"  // of images
	"slices"
	"strings"
)

// maxPixels bounds an image. Codex decodes images and scales them down; a small
// file can be a very large image.
const maxPixels = 64_000_000

// Image is a picture in a message.
type Image struct {
	// URL is a data: URL that CheckImage accepts, or an http(s) URL, see Remote.
	URL string
	// Detail is auto, low, high, original or empty.
	Detail string
}

// PlacedImage is an image of a request, and where that is.
type PlacedImage struct {
	At    string
	Image *Image
}

// Remote reports whether the image has yet to be fetched.
func (i Image) Remote() bool {
	scheme, _, _ := strings.Cut(i.URL, ":")
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

var (
	imageTypes   = []string{"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}
	imageDetails = []string{"", "auto", "low", "high", "original"}
)

// newImage checks an image that a client sends; at is the path of the object
// that holds detail, url the name of its other field.
func newImage(at, field, url, detail string) (Image, error) {
	i := Image{url, detail}
	switch {
	case !slices.Contains(imageDetails, detail):
		return i, Invalid("invalid_value", at+".detail", at+".detail must be auto, low or high")
	case url == "":
		return i, Invalid("image_required", at+"."+field, at+"."+field+" is required")
	case i.Remote():
		return i, nil
	}
	return i, CheckImage(at+"."+field, url)
}

// CheckImage checks a data: URL. Codex replaces an image that it cannot read by
// words that say so, and the model would answer those. The check reads the
// image's header, not its data.
func CheckImage(at, url string) error {
	kind, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:") {
		return Invalid("invalid_image_url", at, at+" must be an http(s) URL or data:image/png;base64,… (png, jpeg, gif or webp)")
	}
	if !slices.Contains(imageTypes, strings.ToLower(kind)) {
		return Invalid("invalid_image_url", at, fmt.Sprintf("%s must be an image of type png, jpeg, gif or webp, not %q", at, clip(kind)))
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(data)
	if err != nil || strings.ContainsAny(data, "\r\n") {
		return Invalid("invalid_image_url", at, at+" is not valid base64")
	}
	width, height, ok := imageSize(raw)
	switch {
	case !ok:
		return Invalid("invalid_image_url", at, at+" does not hold a png, jpeg, gif or webp image")
	case width <= 0 || height <= 0 || height > maxPixels/width:
		return Invalid("image_too_large", at, fmt.Sprintf("%s is an image of %d × %d pixels; the limit is %d", at, width, height, maxPixels))
	}
	return nil
}

func imageSize(raw []byte) (width, height int, ok bool) {
	if width, height, ok = webpSize(raw); ok {
		return width, height, true
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(raw))
	return config.Width, config.Height, err == nil
}

// webpSize reads the first chunk of a WebP file (RFC 9649, sections 2.5 to 2.7).
func webpSize(b []byte) (width, height int, ok bool) {
	if len(b) < 30 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return 0, 0, false
	}
	switch string(b[12:16]) {
	case "VP8 ":
		return (int(b[26]) | int(b[27])<<8) & 0x3fff, (int(b[28]) | int(b[29])<<8) & 0x3fff, true
	case "VP8L":
		bits := int(b[21]) | int(b[22])<<8 | int(b[23])<<16 | int(b[24])<<24
		return bits&0x3fff + 1, bits>>14&0x3fff + 1, b[20] == 0x2f
	case "VP8X":
		return 1 + (int(b[24]) | int(b[25])<<8 | int(b[26])<<16), 1 + (int(b[27]) | int(b[28])<<8 | int(b[29])<<16), true
	}
	return 0, 0, false
}
