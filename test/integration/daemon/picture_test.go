package daemon

import (
	"bytes"
	_ "embed"
	"flag"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
)

var updatePictures = flag.Bool("update-pictures", false, "write the pictures of docs/console.md")

//go:embed testdata/picture.js
var pictureScript string

// pictures are the pictures of docs/console.md, by their files: a page in a look.
var pictures = map[string]struct{ page, look string }{
	"console-overview.png": {"overview", "light"},
	"console-workers.png":  {"workers", "dark"},
	"console-keys.png":     {"keys", "light"},
	"console-phone.png":    {"remotes", "phone"},
}

// maxDiffer is the part of the points of a picture that may differ, such as by another version of the browser.
const maxDiffer = 0.001

// pictures asserts that the pictures of docs/console.md show what the page looks like.
func (d *driver) pictures() {
	t := d.b.T
	t.Helper()
	d.script("sessionStorage.clear()")
	dir := filepath.Join(manual.Root(t), "docs", "pictures")
	for name, p := range pictures {
		d.open(consoleURL + "/index.html")
		d.until(`document.querySelector("#lost").textContent !== ""`)
		looks[p.look](d)
		var fault string
		d.call(http.MethodPost, "/execute/async", map[string]any{"args": []any{p.page}, "script": pictureScript}, &fault)
		require.Equal(t, `""`, fault, name)
		var shot []byte
		d.call(http.MethodGet, "/screenshot", nil, &shot)
		path := filepath.Join(dir, name)
		if *updatePictures {
			require.NoError(t, os.WriteFile(path, shot, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		part := differ(t, want, shot)
		t.Logf("%s: %.4f %% of the points differ", name, part*100)
		if !assert.LessOrEqual(t, part, maxDiffer, "%s: look at it, and then write it anew: -update-pictures", name) {
			other := filepath.Join(os.TempDir(), name)
			require.NoError(t, os.WriteFile(other, shot, 0o644))
			t.Logf("the page now: %s", other)
		}
	}
}

// differ is the part of the points of two pictures that differ to the eye.
func differ(t *testing.T, a, b []byte) float64 {
	t.Helper()
	decode := func(raw []byte) image.Image {
		i, err := png.Decode(bytes.NewReader(raw))
		require.NoError(t, err)
		return i
	}
	one, two := decode(a), decode(b)
	if one.Bounds() != two.Bounds() {
		return 1
	}
	const visible = 0x2000 // of 0xffff, in a colour: less is smoothing
	far := func(x, y uint32) bool { return max(x, y)-min(x, y) > visible }
	count, size := 0, one.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			r1, g1, b1, _ := one.At(x, y).RGBA()
			r2, g2, b2, _ := two.At(x, y).RGBA()
			if far(r1, r2) || far(g1, g2) || far(b1, b2) {
				count++
			}
		}
	}
	return float64(count) / float64(size.X*size.Y)
}
