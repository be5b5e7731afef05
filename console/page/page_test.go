package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxSize bounds all files of the page together, in bytes, as they are sent compressed.
const maxSize = 80 << 10

func names(t *testing.T) []string {
	t.Helper()
	list, err := fs.Glob(Files(), "*")
	require.NoError(t, err)
	return list
}

func TestSize(t *testing.T) {
	size := 0
	for _, name := range names(t) {
		content, err := fs.ReadFile(Files(), name)
		require.NoError(t, err)
		var small bytes.Buffer
		w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
		require.NoError(t, err)
		_, err = w.Write(content)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		size += small.Len()
	}
	t.Logf("%d bytes", size)
	assert.LessOrEqual(t, size, maxSize)
}

// Each file of the page is in the package for Cockpit, too, but those of the console's own server.
func TestCockpitHasThePage(t *testing.T) {
	list, err := os.ReadFile("../../packaging/nfpm.yaml")
	require.NoError(t, err)
	for _, name := range names(t) {
		installed := strings.Contains(string(list), "{src: console/page/static/"+name+", dst: /usr/share/cockpit/codex-proxy/")
		own := slices.Contains([]string{"app.webmanifest", "http.js", "index.html", "push.js", "sw.js"}, name)
		assert.NotEqual(t, own, installed, "a line of packaging/nfpm.yaml for %s", name)
	}
}

// The page asks for its own files alone, and has no script or style in its HTML, which the policies of both hosts refuse.
func TestPageIsSelfContained(t *testing.T) {
	for _, name := range names(t) {
		content, err := fs.ReadFile(Files(), name)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		for _, word := range []string{"http://", "https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick=",
			"localhost", "127.0.0.1", "8787"} {
			assert.NotContains(t, text, word, name)
		}
		if strings.HasSuffix(name, ".html") {
			assert.Equal(t, strings.Count(text, "<script"), strings.Count(text, "<script src=")+strings.Count(text, `<script type="module" src=`), name)
		}
	}
}

// An iPhone has notifications for a page of the Home Screen alone that is an app by its manifest.
func TestManifest(t *testing.T) {
	index, err := fs.ReadFile(Files(), "index.html")
	require.NoError(t, err)
	assert.Contains(t, string(index), `<link rel="manifest" href="app.webmanifest">`)
	text, err := fs.ReadFile(Files(), "app.webmanifest")
	require.NoError(t, err)
	var manifest struct {
		Display string
		Icons   []struct{ Src string }
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	assert.Equal(t, "standalone", manifest.Display)
	for _, icon := range manifest.Icons {
		assert.Contains(t, names(t), icon.Src)
	}
}
