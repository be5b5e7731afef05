package imagecost

import "math"

// minRow is the least number of pixels that a row counts for: a shorter row takes the decoder as long.
const minRow = 64

// sizeLimit is the largest size that codex does not scale down.
type sizeLimit struct{ side, pixels float64 }

// sizeLimits are the limits of models that accept images of detail "original", and of all others. An image counts for
// the limit that makes it more expensive.
var sizeLimits = []sizeLimit{{6000, 10000 * 32 * 32}, {2048, 2500 * 32 * 32}}

// Decoding is how many bytes codex needs to decode the image, a file of that size: it holds the file as base64, and
// most of it a second time when it encodes the image again.
func (h Header) Decoding(file int) int64 {
	const most = 1 << 60
	requireFields := h.area() * float64(h.peak)
	for _, f := range sizeLimits {
		requireFields = max(requireFields, h.scaling(f))
	}
	return int64(min(requireFields, most)) + 4*int64(file)
}

func (h Header) area() float64 { return float64(max(h.Width, minRow)) * float64(h.Height) }

// scaling is how many bytes codex needs to scale the image down; 0 if it does not.
func (h Header) scaling(to sizeLimit) float64 {
	width, height := float64(h.Width), float64(h.Height)
	scale := min(to.side/max(width, height), math.Sqrt(to.pixels/(width*height)))
	if scale >= 1 {
		return 0
	}
	rows, columns := max(1, height*scale), max(1, width*scale)
	return (h.area()+rows*columns)*float64(h.pixel) + width*rows*16
}

// Patches is how many squares of 32 × 32 pixels the image has after it was scaled down for a model that accepts images
// of detail "original". Each is a token of the newest models; others take fewer tokens.
func (h Header) Patches() int64 {
	const square = 32
	width, height := float64(h.Width), float64(h.Height)
	largest := sizeLimits[0]
	scale := min(1, largest.side/max(width, height), math.Sqrt(largest.pixels/(width*height)))
	return int64(math.Ceil(width*scale/square) * math.Ceil(height*scale/square))
}
