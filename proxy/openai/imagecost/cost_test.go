package imagecost

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// inPNG is a PNG whose header declares that size.
func inPNG(t *testing.T, m image.Image, width, height uint32) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	raw := b.Bytes()
	header := raw[12:29] // the IHDR chunk, its type included; its checksum follows
	binary.BigEndian.PutUint32(header[4:], width)
	binary.BigEndian.PutUint32(header[8:], height)
	binary.BigEndian.PutUint32(raw[29:], crc32.ChecksumIEEE(header))
	return raw
}

func inJPEG(t *testing.T, m image.Image, width, height uint16) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, m, nil))
	raw := b.Bytes()
	at := bytes.Index(raw, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(raw[at+5:], height)
	binary.BigEndian.PutUint16(raw[at+7:], width)
	return raw
}

// inGIF is a GIF with a comment, whose first frame declares that size.
func inGIF(t *testing.T, width, height uint16) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, gif.Encode(&b, image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black}), nil))
	raw := b.Bytes()
	frame := bytes.LastIndex(raw, []byte{0x2c, 0, 0, 0, 0})
	binary.LittleEndian.PutUint16(raw[frame+5:], width)
	binary.LittleEndian.PutUint16(raw[frame+7:], height)
	comment := []byte("\x21\xfe\x03abc\x00")
	return append(raw[:frame:frame], append(comment, raw[frame:]...)...)
}

func chunk(kind string, body ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(kind), uint32(len(body)))
	return append(append(b, body...), make([]byte, len(body)%2)...)
}

func inWebP(chunks ...[]byte) []byte {
	body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// lossless is a chunk of a lossless image, of one colour.
func lossless(width, height uint32) []byte {
	bits := binary.LittleEndian.AppendUint32(nil, width-1|(height-1)<<14)
	return chunk("VP8L", append(append([]byte{0x2f}, bits...), 0x88, 0x88, 0x08, 0, 0)...)
}

func lossy(width, height uint16) []byte {
	size := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, width), height)
	return chunk("VP8 ", append([]byte{0, 0, 0, 0x9d, 0x01, 0x2a}, append(size, 0, 0)...)...)
}

// The size that a frame declares counts, as in codex, not that of the container.
func TestImageHeaders(t *testing.T) {
	one := image.Rect(0, 0, 1, 1)
	colours := color.Palette{color.Black, color.White}
	canvas := chunk("VP8X", 0x10, 0, 0, 0, 1, 0, 0, 2, 0, 0)
	frame := chunk("ANMF", append(make([]byte, 16), lossy(8000, 6000)...)...)
	for name, tc := range map[string]struct {
		raw  []byte
		want Header
	}{
		"png, grey":            {inPNG(t, image.NewGray(one), 8000, 6000), Header{8000, 6000, 2, 2}},
		"png, grey of 16 bits": {inPNG(t, image.NewGray16(one), 8000, 6000), Header{8000, 6000, 4, 4}},
		"png, palette": {inPNG(t, image.NewPaletted(one, colours), 8000, 6000),
			Header{8000, 6000, 4, 4}},
		"png, RGBA":               {inPNG(t, image.NewNRGBA(one), 8000, 6000), Header{8000, 6000, 4, 4}},
		"png, RGBA of 16 bits":    {inPNG(t, image.NewNRGBA64(one), 8000, 6000), Header{8000, 6000, 8, 8}},
		"jpeg":                    {inJPEG(t, image.NewNRGBA(one), 8000, 6000), Header{8000, 6000, 3, 9}},
		"jpeg, grey":              {inJPEG(t, image.NewGray(one), 8000, 6000), Header{8000, 6000, 1, 3}},
		"gif":                     {inGIF(t, 2, 1), Header{3, 2, 4, 8}},
		"gif, frame beyond":       {inGIF(t, 8000, 6000), Header{8000, 6000, 4, 8}},
		"webp":                    {inWebP(lossless(8000, 6000)), Header{8000, 6000, 4, 8}},
		"webp, lossy":             {inWebP(lossy(8000, 6000)), Header{8000, 6000, 4, 8}},
		"webp, canvas":            {inWebP(canvas, lossy(2, 3)), Header{2, 3, 4, 8}},
		"webp, image beyond":      {inWebP(canvas, lossless(8000, 6000)), Header{8000, 6000, 4, 8}},
		"webp, frame beyond":      {inWebP(canvas, chunk("ICCP", 1, 2, 3), frame), Header{8000, 6000, 4, 8}},
		"webp, a chunk too short": {inWebP(lossless(2, 3), []byte("VP8X\xff\xff\xff\xff")), Header{2, 3, 4, 8}},
	} {
		got, ok := ReadHeader(tc.raw)
		assert.True(t, ok, name)
		assert.Equal(t, tc.want, got, name)
	}
	for _, raw := range [][]byte{inWebP(chunk("ICCP", make([]byte, 20)...)), []byte("RIFF\x00\x00\x00\x00WEBPVP8L"),
		[]byte("GIF89a")} {
		_, ok := ReadHeader(raw)
		assert.False(t, ok)
	}
}

// The computed bytes are about the measured peak in the package's documentation.
func TestImagesCountAsMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		header Header
		file   int
		peak   int64 // MiB
	}{
		"png, 1080 rows":  {Header{1920, 1080, 4, 4}, 131383, 13},
		"photo":           {Header{4000, 3000, 3, 9}, 2304841, 245},
		"large photo":     {Header{8160, 6120, 3, 9}, 9560931, 555},
		"png, grey":       {Header{8000, 8000, 2, 2}, 74841, 468},
		"png, RGBA":       {Header{8000, 8000, 4, 4}, 265119, 680},
		"png, RGBA of 16": {Header{8000, 8000, 8, 8}, 522342, 964},
		"jpeg, CMYK":      {Header{8000, 8000, 3, 11}, 1502042, 683},
		"webp":            {Header{8000, 8000, 4, 8}, 30, 607},
		"webp, 4 million": {Header{2000, 2000, 4, 8}, 30, 31},
		"one row":         {Header{64_000_000, 1, 2, 2}, 62297, 1051},
	} {
		counted := tc.header.Decoding(tc.file) / mib
		assert.Greater(t, counted, tc.peak-15, name)
		assert.Less(t, counted, tc.peak+100, name)
	}
	assert.Greater(t, Header{1, 64_000_000, 2, 2}.Decoding(0), int64(1<<30), "a short row takes time, too")
	assert.Positive(t, Header{1 << 31, 1 << 31, 8, 8}.Decoding(0))
}
