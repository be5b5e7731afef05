package admission

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/history"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/media"
)

func TestImagePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p imagePlaces
		frees := make([]func(), parallelImages)
		for i := range frees {
			var err error
			frees[i], err = p.acquire(t.Context(), "ann")
			require.NoError(t, err)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.acquire(within, "ann")
		require.ErrorIs(t, err, context.DeadlineExceeded, "a wait ends with its request")
		time.AfterFunc(time.Second, frees[0])
		_, err = p.acquire(t.Context(), "ann")
		require.NoError(t, err, "one is free")
	})
}

// large is an image of which a worker decodes four for one request, and small one that counts for nothing.
var large, small = pngOf(8000, 8000), pngOf(1, 1)

// pngOf is the beginning of a PNG of that size, as a data: URL.
func pngOf(width, height uint32) string {
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), width), height)
	header = append(header, 8, 2, 0, 0, 0) // RGB
	file := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	file = binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(header))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
}

// placed are images, the last ones new.
func placed(t *testing.T, added int, urls ...string) []media.PlacedImage {
	t.Helper()
	var list []media.PlacedImage
	for i, url := range urls {
		image, err := media.NewImage("at", "url", url, "")
		require.NoError(t, err)
		list = append(list, media.PlacedImage{At: fmt.Sprint(i), Image: image, New: i >= len(urls)-added})
	}
	return list
}

func omitted(images []media.PlacedImage) (list []string) {
	for _, p := range images {
		if p.Image.Omitted() {
			list = append(list, p.At)
		}
	}
	return list
}

// A conversation goes on, however many images it has collected: the oldest ones give way.
func TestOldImagesGiveWay(t *testing.T) {
	for name, tc := range map[string]struct {
		images  []string
		added   int
		turns   int
		omitted []string
	}{
		"all fit":               {[]string{large, large, large, large}, 1, 1, nil},
		"the oldest":            {[]string{large, large, large, large, large}, 1, 1, []string{"0"}},
		"all before the oldest": {[]string{small, large, large, large, large, large}, 1, 1, []string{"0", "1"}},
		"for two choices":       {[]string{large, large, large}, 1, 2, []string{"0"}},
		"of a tool":             {[]string{large, large, large, large, large}, 0, 1, []string{"0"}},
		"too large by itself":   {[]string{small, pngOf(8001, 8000), small}, 1, 1, []string{"1"}},
	} {
		images := placed(t, tc.added, tc.images...)
		bytes, err := Decoding(images, tc.turns)
		require.NoError(t, err, name)
		assert.Equal(t, tc.omitted, omitted(images), name)
		assert.LessOrEqual(t, bytes*int64(tc.turns), int64(media.MaxDecoding), name)
		again, err := Decoding(images, tc.turns)
		require.NoError(t, err, name)
		assert.Equal(t, bytes, again, "an image that is left out stays so: %s", name)
	}
}

func TestNewImagesDoNotGiveWay(t *testing.T) {
	for param, images := range map[string][]media.PlacedImage{
		"4":      placed(t, 5, large, large, large, large, large),
		"at.url": placed(t, 1, small, pngOf(8001, 8000)),
	} {
		_, err := Decoding(images, 1)
		var refusal *openai.Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, "image_too_large", refusal.Code)
		assert.Equal(t, param, refusal.Param)
	}
}

func TestMoreImagesThanAModelTakes(t *testing.T) {
	images := placed(t, 1, slices.Repeat([]string{small}, media.MaxImages+2)...)
	_, err := Decoding(images, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"0", "1"}, omitted(images))
}

// A request has no host get more requests than that.
func TestTheOldestImagesAreNotFetched(t *testing.T) {
	var images []media.PlacedImage
	for i := range mostFetched + 1 {
		images = append(images, media.PlacedImage{At: fmt.Sprint(i), Image: &media.Image{URL: "https://x.example/i.png"}})
	}
	require.NoError(t, boundFetched(images))
	assert.Equal(t, []string{"0"}, omitted(images))
	images[0] = media.PlacedImage{At: "0", Image: &media.Image{URL: "https://x.example/i.png"}, New: true}
	assert.ErrorContains(t, boundFetched(images), "at most 50 images of one request are fetched")
}

func TestATextStandsInThePlaceOfAnImage(t *testing.T) {
	image := placed(t, 0, small)[0].Image
	image.Omit()
	assert.Equal(t, []history.Content{{Type: "input_text", Text: media.OmittedImage}},
		AppendContents(nil, []media.Part{{Image: image}}, "input_text"))
}
