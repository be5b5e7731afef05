package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/openaitest"
)

const tinyWebP = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"

func drawn(t *testing.T, encode func(io.Writer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, encode(&b, image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black})))
	return b.Bytes()
}

func TestImages(t *testing.T) {
	pngBytes := drawn(t, png.Encode)
	webp, err := base64.StdEncoding.DecodeString(tinyWebP)
	require.NoError(t, err)
	for name, url := range map[string]string{
		"png": openaitest.DataURL("image/png", pngBytes),
		"jpeg": openaitest.DataURL("image/jpeg",
			drawn(t, func(w io.Writer, i image.Image) error { return jpeg.Encode(w, i, nil) })),
		"gif": openaitest.DataURL("image/gif",
			drawn(t, func(w io.Writer, i image.Image) error { return gif.Encode(w, i, nil) })),
		"webp":       openaitest.DataURL("image/webp", webp),
		"wrong type": openaitest.DataURL("image/jpg", pngBytes), // codex looks at the bytes, too
	} {
		assert.NoError(t, (&Image{URL: url}).check("p"), name)
	}
	huge := bytes.Clone(pngBytes)
	binary.BigEndian.PutUint32(huge[16:], 1<<20) // the width, in the IHDR chunk,
	binary.BigEndian.PutUint32(huge[20:], 1<<20) // the height,
	copy(huge[29:], []byte{0, 0, 0, 0})          // and its checksum
	for name, tc := range map[string]struct{ url, code string }{
		"no data URL":  {"x", "invalid_image_url"},
		"no base64":    {"data:image/png,x", "invalid_image_url"},
		"svg":          {openaitest.DataURL("image/svg+xml", []byte("<svg/>")), "invalid_image_url"},
		"bad base64":   {"data:image/png;base64,!!!", "invalid_image_url"},
		"broken lines": {"data:image/png;base64,iVBO\nRw0K", "invalid_image_url"},
		"not an image": {openaitest.DataURL("image/png", []byte("hello")), "invalid_image_url"},
		"nothing":      {"data:image/png;base64,", "invalid_image_url"},
		"cut header":   {openaitest.DataURL("image/png", pngBytes[:20]), "invalid_image_url"},
	} {
		var e *openai.Error
		require.ErrorAs(t, (&Image{URL: tc.url}).check("p"), &e, name)
		assert.Equal(t, tc.code, e.Code, name)
		assert.Equal(t, "p", e.Param)
	}
	assert.Error(t, (&Image{URL: openaitest.DataURL("image/png", huge)}).check("p"))
}

// The forms are those that clients send; codex reads one of them.
func TestDataURLsInOtherForms(t *testing.T) {
	raw := drawn(t, png.Encode)
	raw = append(raw, bytes.Repeat([]byte("\xfb\xef\xbe\xff"), 8)...) // behind the end of the image, for + and /
	want := openaitest.DataURL("image/png", raw)
	data := strings.TrimPrefix(want, "data:image/png;base64,")
	require.Contains(t, data, "+")
	for name, url := range map[string]string{
		"as codex reads it": want,
		"upper case":        "DATA:image/PNG;BASE64," + data,
		"charset":           "data:image/png;charset=utf-8;base64," + data,
		"line breaks":       "data:image/png;base64," + data[:20] + "\r\n" + data[20:] + "\n",
		"no padding":        "data:image/png;base64," + strings.TrimRight(data, "="),
		"URL-safe":          "data:image/png;base64," + strings.NewReplacer("+", "-", "/", "_").Replace(data),
		"space":             "data:image/png; base64, " + data,
	} {
		image := &Image{URL: url}
		require.NoError(t, image.check("p"), name)
		assert.Equal(t, want, image.URL, name)
	}
}

func TestLargeWebP(t *testing.T) {
	webp, err := base64.StdEncoding.DecodeString(tinyWebP)
	require.NoError(t, err)
	copy(webp[26:], []byte{0xff, 0x3f, 0xff, 0x3f})
	large := &Image{URL: openaitest.DataURL("image/webp", webp)}
	require.NoError(t, large.check("p"))
	require.NotNil(t, large.TooLarge())
	assert.Equal(t, "image_too_large", large.TooLarge().Code)
}

func TestRemoteImages(t *testing.T) {
	for url, remote := range map[string]bool{"https://x/y": true, "HTTP://x": true, "data:image/png;base64,": false,
		"file:///x": false, "": false} {
		assert.Equal(t, remote, Image{URL: url}.Remote(), url)
	}
}

// pngHeader is the beginning of a PNG with 3 bytes a openaitest.Pixel, or 8.
func pngHeader(width, height uint32, bytesPerPixel int) []byte {
	depth, colourType := byte(8), byte(2) // RGB
	if bytesPerPixel == 8 {
		depth, colourType = 16, 6 // RGBA
	}
	ihdr := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	ihdr = append(binary.BigEndian.AppendUint32(ihdr, height), depth, colourType, 0, 0, 0)
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), ihdr...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(ihdr))
}

func TestImagesTooLarge(t *testing.T) {
	for name, tc := range map[string]struct {
		raw []byte
		ok  bool
	}{
		"64 million pixels": {pngHeader(8000, 8000, 3), true},
		"of 16 bits":        {pngHeader(8000, 8000, 8), true},
		"one more":          {pngHeader(8001, 8000, 3), false},
		"in one row":        {pngHeader(64_000_000, 1, 3), false},
		"in one column":     {pngHeader(1, 64_000_000, 3), false},
	} {
		image := &Image{URL: openaitest.DataURL("image/png", tc.raw)}
		require.NoError(t, image.check("p"), name)
		if tc.ok {
			assert.Nil(t, image.TooLarge(), name)
			assert.Equal(t, image.Decoding(), (&Image{URL: image.URL}).Decoding(), name)
			continue
		}
		e := image.TooLarge()
		require.NotNil(t, e, name)
		assert.Equal(t, "image_too_large", e.Code, name)
		assert.Equal(t, "p", e.Param, name)
	}
}
