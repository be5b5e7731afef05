package media

import (
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/imagecost"
)

const (
	// maxPixels bounds an image. Codex decodes images and scales them down; a small file can hold a very large image.
	maxPixels = 64_000_000
	// maxDecoding bounds the bytes for one image: enough for 64 megapixels, except in an extreme shape. A worker must
	// have as much memory beyond its memory when idle.
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

	decoding int64         // 0: not computed yet
	tooLarge *openai.Error // why no worker can decode it; nil: one can
	omitted  bool          // a text stands in its place
}

// MaxImages is how many images of a request the model receives. OpenAI's and Anthropic's APIs take 500 to 1500.
const MaxImages = 1000

// PlacedImage is an image and its path in the request.
type PlacedImage struct {
	At    string
	Image *Image
	// New means that it is in the message of the client that the answer is for. An image of an earlier message or of a
	// tool is left out if it is beyond a bound: the conversation could not go on otherwise.
	New bool
}

// OmittedImage is the text in the place of an image that is left out.
const OmittedImage = "(An image was here. It is left out: it cannot be had any more, or the images of the conversation are too large or too many.)"

// Omit leaves the image out of the turn.
func (i *Image) Omit() { i.omitted = true }

// Omitted reports whether OmittedImage stands in its place.
func (i *Image) Omitted() bool { return i.omitted }

// TooLarge is the error of an image that no worker can decode, else nil.
func (i *Image) TooLarge() *openai.Error { return i.tooLarge }

// Decoding is how many bytes codex needs to decode the image, which must not be remote.
func (i *Image) Decoding() int64 {
	if i.decoding == 0 {
		raw, _, _ := decodeDataURL("", i.URL) // it was checked when it was decoded
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

// NewImage checks an image of a request, a data: URL or an http(s) URL. at is the path of the object that holds detail,
// field the name of its other member.
func NewImage(at, field, url, detail string) (*Image, error) {
	i := &Image{URL: url, Detail: detail}
	switch {
	case !slices.Contains(imageDetails, detail):
		return i, openai.Invalid("invalid_value", at+".detail", at+".detail must be auto, low or high")
	case url == "":
		return i, openai.Invalid("image_required", at+"."+field, at+"."+field+" is required")
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

// check checks a data: URL, and puts it into codex's form. Codex would replace an image that it cannot read by an
// explanation, and the model would answer that. The check reads the image's header, not its data. An image that is too
// large is no error here: the caller knows whether it is new.
func (i *Image) check(at string) error {
	raw, url, err := decodeDataURL(at, i.URL)
	if err != nil {
		return err
	}
	i.URL = url
	h, ok := imagecost.ReadHeader(raw)
	i.decoding = max(1, h.Decoding(len(raw)))
	switch {
	case !ok:
		return openai.Invalid("invalid_image_url", at, at+" does not hold a png, jpeg, gif or webp image")
	case h.Width <= 0 || h.Height <= 0 || h.Height > maxPixels/h.Width:
		i.tooLarge = openai.Invalid("image_too_large", at,
			fmt.Sprintf("%s is an image of %d × %d pixels; the limit is %d", at, h.Width, h.Height, maxPixels))
		return nil
	}
	if i.decoding > maxDecoding {
		i.tooLarge = openai.Invalid("image_too_large", at, fmt.Sprintf(
			"%s is an image of %d × %d pixels, for which a worker needs %d MiB of memory; "+
				"the limit is %d: scale it down",
			at, h.Width, h.Height, i.decoding>>20, maxDecoding>>20))
	}
	return nil
}
