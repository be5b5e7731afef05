package media

// Part is one part of a message: text, or an image.
type Part struct {
	Text  string
	Image *Image
	// At is the path of the part in the request.
	At string
}
