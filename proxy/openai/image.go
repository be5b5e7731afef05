package openai

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai/imagecost"
)

const (
	// maxPixels bounds an image. Codex decodes images and scales them down; a small file can hold a very large image.
	maxPixels = 64_000_000
	// maxDecoding bounds the bytes for one image: any of 64 megapixels but those of extreme shape. A worker must have
	// as much memory beyond its memory when idle.
	maxDecoding = 1 << 30
	// MaxDecoding bounds the bytes for all images of a request: five photos of 50 megapixels, a dozen of 12, 300
	// screenshots of 1080 rows. Codex needs 7 to 15 s of CPU time for as much, of the 30 s in which a turn has to
	// start.
	MaxDecoding = 3 << 30
)

// Image is a picture in a message.
type Image struct {
	// URL is a data: URL that CheckImage accepts, or an http(s) URL, see Remote.
	URL string
	// Detail is auto, low, high, original or empty.
	Detail string

	decoding int64 // 0: not computed yet
}

// PlacedImage is an image and its path in the request.
type PlacedImage struct {
	At    string
	Image *Image
}

// Decoding is how many bytes codex needs to decode the image, which must not be remote.
func (i *Image) Decoding() int64 {
	if i.decoding == 0 {
		raw, _ := decodeDataURL("", i.URL) // it was checked when it was decoded
		h, _ := imagecost.ReadHeader(raw)
		i.decoding = h.Decoding(len(raw))
	}
	return i.decoding
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

// newImage checks an image of a request; at is the path of the object that holds detail, field the name of its other
// member.
func newImage(at, field, url, detail string) (Image, error) {
	i := Image{URL: url, Detail: detail}
	switch {
	case !slices.Contains(imageDetails, detail):
		return i, Invalid("invalid_value", at+".detail", at+".detail must be auto, low or high")
	case url == "":
		return i, Invalid("image_required", at+"."+field, at+"."+field+" is required")
	case i.Remote():
		return i, nil
	}
	return i, i.check(at + "." + field)
}

// Inline replaces the URL of a remote image by the fetched image, a data: URL. at is its path.
func (i *Image) Inline(at, url string) error {
	i.URL = url
	return i.check(at)
}

// check checks a data: URL. Codex would replace an image that it cannot read by an explanation, and the model would
// answer that. The check reads the image's header, not its data.
func (i *Image) check(at string) error {
	raw, err := decodeDataURL(at, i.URL)
	if err != nil {
		return err
	}
	h, ok := imagecost.ReadHeader(raw)
	switch {
	case !ok:
		return Invalid("invalid_image_url", at, at+" does not hold a png, jpeg, gif or webp image")
	case h.Width <= 0 || h.Height <= 0 || h.Height > maxPixels/h.Width:
		return Invalid("image_too_large", at,
			fmt.Sprintf("%s is an image of %d × %d pixels; the limit is %d", at, h.Width, h.Height, maxPixels))
	}
	i.decoding = h.Decoding(len(raw))
	if i.decoding > maxDecoding {
		return Invalid("image_too_large", at, fmt.Sprintf(
			"%s is an image of %d × %d pixels, for which a worker needs %d MiB of memory; "+
				"the limit is %d: scale it down",
			at, h.Width, h.Height, i.decoding>>20, maxDecoding>>20))
	}
	return nil
}

// decodeDataURL is the file in a data: URL of an image.
func decodeDataURL(at, url string) ([]byte, error) {
	kind, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:") {
		return nil, Invalid("invalid_image_url", at,
			at+" must be an http(s) URL or data:image/png;base64,… (png, jpeg, gif or webp)")
	}
	if !slices.Contains(imageTypes, strings.ToLower(kind)) {
		return nil, Invalid("invalid_image_url", at,
			fmt.Sprintf("%s must be an image of type png, jpeg, gif or webp, not %q", at, clip(kind)))
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(data)
	if err != nil || strings.ContainsAny(data, "\r\n") {
		return nil, Invalid("invalid_image_url", at, at+" is not valid base64")
	}
	return raw, nil
}
