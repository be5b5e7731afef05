package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A conversation may hold as many images as messages; what is too much is left out later.
func TestManyImages(t *testing.T) {
	const image = `{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}`
	message := func(role string, n int) string {
		return `{"role":"` + role + `","content":[` + strings.Repeat(image+",", n-1) + image + `]}`
	}
	req := decoded(t, `{"model":"m","messages":[`+message("user", 600)+","+message("user", 2)+`]}`)
	assert.Equal(t, []string{"image_url.detail"}, req.Ignored)
	images := req.Images()
	require.Len(t, images, 602)
	assert.False(t, images[599].New)
	assert.True(t, images[600].New, "images of the last message are new")
	assert.Equal(t, "messages[1].content[1].image_url.url", images[601].At)
}
