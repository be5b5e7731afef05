package imagecost

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	_ "image/gif"  // decoders of
	_ "image/jpeg" // the headers
	_ "image/png"  // of images
)

// Header holds the facts in the header of an image file.
type Header struct {
	Width, Height int // in pixels
	pixel         int // bytes of a pixel in codex when the image is decoded
	peak          int // bytes for a pixel while it decodes the image
}

// ReadHeader returns false unless raw is a PNG, JPEG, GIF or WebP. Like codex it recognises the format by the
// first bytes, not by a declared type.
func ReadHeader(raw []byte) (h Header, ok bool) {
	if h, ok = webpHeader(raw); ok {
		return h, true
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(raw))
	h.Width, h.Height = config.Width, config.Height
	switch format {
	case "png":
		h.pixel = pngPixel(config.ColorModel)
		h.peak = h.pixel
	case "jpeg":
		h.pixel, h.peak = jpegPixel(config.ColorModel)
	case "gif":
		h.pixel, h.peak = 4, 8 // RGBA: the screen, and a frame to put into it
		h.growToGIF(raw)
	}
	return h, err == nil
}

// pngPixel counts the alpha that a tRNS chunk may add to grey, RGB and a palette.
func pngPixel(m color.Model) int {
	switch m {
	case color.GrayModel: // 1 to 8 bits
		return 2
	case color.Gray16Model:
		return 4
	case color.RGBA64Model, color.NRGBA64Model:
		return 8
	default:
		return 4
	}
}

// jpegPixel counts the coefficients of the whole image, two bytes a component: the decoder keeps them for a progressive
// image, and for one that has its components one after the other.
func jpegPixel(m color.Model) (pixel, peak int) {
	switch m {
	case color.GrayModel:
		return 1, 3
	case color.CMYKModel: // becomes RGB
		return 3, 11
	default:
		return 3, 9
	}
}

// growTo makes the image at least so large.
func (h *Header) growTo(width, height int) {
	h.Width, h.Height = max(h.Width, width), max(h.Height, height)
}

// growToGIF reads the size of the first frame, which may be larger than the screen
// (GIF89a, section 20). Codex decodes no other.
func (h *Header) growToGIF(b []byte) {
	const screen, image = 13, 10
	if len(b) < screen {
		return
	}
	b = b[min(len(b), screen+palette(b[10])):]
	for len(b) >= image {
		switch b[0] {
		case 0x2c:
			h.growTo(int(binary.LittleEndian.Uint16(b[5:])), int(binary.LittleEndian.Uint16(b[7:])))
			return
		case 0x21:
			b = afterBlocks(b[2:])
		default:
			return
		}
	}
}

// palette is how many bytes of colours follow.
func palette(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}

// afterBlocks skips the data blocks of an extension.
func afterBlocks(b []byte) []byte {
	for len(b) > 0 && b[0] != 0 {
		b = b[min(len(b), 1+int(b[0])):]
	}
	return b[min(len(b), 1):]
}

// webpHeader reads the chunks of a WebP file (RFC 9649, sections 2.5 to 2.7). The
// canvas of VP8X does not bound the frames in it: codex decodes a frame before it
// finds that frame too large.
func webpHeader(b []byte) (h Header, ok bool) {
	if len(b) < 30 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return h, false
	}
	h.pixel, h.peak = 4, 8 // RGBA, and as much again for a lossless image without alpha
	return h, h.growToWebP(b[12:])
}

// growToWebP reads the chunks of a file, or of a frame in it; false means that there
// is no image in them.
func (h *Header) growToWebP(b []byte) (found bool) {
	for len(b) >= 8 {
		size := int(binary.LittleEndian.Uint32(b[4:]))
		chunk := b[8:min(len(b), 8+size)]
		if h.growToChunk(string(b[:4]), chunk) {
			found = true
		}
		b = b[min(len(b), 8+size+size&1):]
	}
	return found
}

func (h *Header) growToChunk(kind string, b []byte) (found bool) {
	switch {
	case kind == "VP8 " && len(b) >= 10:
		h.growTo((int(b[6])|int(b[7])<<8)&0x3fff, (int(b[8])|int(b[9])<<8)&0x3fff)
	case kind == "VP8L" && len(b) >= 5 && b[0] == 0x2f:
		bits := binary.LittleEndian.Uint32(b[1:])
		h.growTo(int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1)
	case kind == "VP8X" && len(b) >= 10:
		h.growTo(1+(int(b[4])|int(b[5])<<8|int(b[6])<<16), 1+(int(b[7])|int(b[8])<<8|int(b[9])<<16))
	case kind == "ANMF" && len(b) > 16:
		return h.growToWebP(b[16:])
	default:
		return false
	}
	return true
}
