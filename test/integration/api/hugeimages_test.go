package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

const (
	// sharpModel is a model to which codex sends images unchanged, up to 10 million
	// pixels: the larger ones cost it most.
	sharpModel = "gpt-5.5"
	// hugeBound is how long they may take together: each some 2 s of CPU time.
	hugeBound = 5 * time.Minute
	// codexPeak is more memory than codex uses when it decodes one of the largest images
	// and nothing else: 140 MiB when idle, 610 for the image, and half as much to spare.
	codexPeak = 1100 << 20
)

// hugeImage is a WebP of 8000 × 8000 pixels: lossless, of one colour (RFC 9649,
// section 3.7.2.1.1), and with a tail that makes it another image to codex, which
// decodes the same one once.
func hugeImage(n int) string {
	file := fmt.Appendf([]byte("RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f\x3f\x5f\xcf\x07\x88\x88\x08\x00\x00"), "%06d", n)
	return "data:image/webp;base64," + base64.StdEncoding.EncodeToString(file)
}

// look posts a chat completion with these images to the sharp model.
func look(b *bed.Bed, client *http.Client, images ...string) (status int, answer string, err error) {
	parts := []any{map[string]string{"type": "text", "text": "[[text seen]]"}}
	for _, url := range images {
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
	}
	body, err := json.Marshal(map[string]any{"model": sharpModel,
		"messages": []any{map[string]any{"role": "user", "content": parts}}})
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hugeBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+"/v1/chat/completions",
		strings.NewReader(string(body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// Small files that are very large images do not end a worker: a request with fifty is
// refused, and any number of requests with one wait for each other, and keep no other
// request waiting.
func TestHugeImages(t *testing.T) {
	t.Parallel()
	b := bed.New(t, bed.Newest, bed.RealWorker+"models = [\""+sharpModel+"\"]\n", "queue_timeout = \"5m\"\n")
	b.Start()
	codex := b.Codex()
	images := make([]string, 50)
	for i := range images {
		images[i] = hugeImage(i)
	}
	status, answer, err := look(b, b.HTTP, images...)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, status, answer)
	assert.Contains(t, answer, `"param":"messages[0].content[5].image_url.url"`)
	assert.Contains(t, answer, `"code":"image_too_large"`)
	assert.Empty(t, b.Models.Turns())

	bystander := bed.Hold(b, "bystander", hugeBound)
	began := time.Now()
	hugeClients := nightly.Or(15, 5) // at the same time
	var clients sync.WaitGroup
	for i := range hugeClients {
		clients.Go(func() {
			status, answer, err := look(b, bed.NewClient(b), hugeImage(100+i))
			assert.NoError(t, err)
			assert.Equal(t, http.StatusOK, status, answer)
		})
	}
	gone := make(chan struct{})
	go func() { clients.Wait(); close(gone) }()
	light := 0
	for waiting := true; waiting; light++ { // a request without images does not wait for those with images
		status, header, answer := b.Chat(false, "[[text light]]")
		assert.Equal(t, http.StatusOK, status, answer)
		assert.Equal(t, "1", header.Get("X-Codex-Attempts"))
		select {
		case <-gone:
			waiting = false
		case <-time.After(100 * time.Millisecond):
		}
	}
	peak := peak(b, codex.Host)
	t.Logf("%d huge images took %s, %d chats beside them; codex's peak %d MiB", hugeClients,
		time.Since(began).Round(time.Second), light, peak>>20)
	bystander.Finish(b)
	assert.Equal(t, codex, b.Codex(), "codex was killed")
	assert.Equal(t, "0", b.Properties(bed.WorkerUnit, "NRestarts")["NRestarts"])
	assert.Less(t, peak, int64(codexPeak))
	assert.Greater(t, light, 1)
	assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "turn lost")
}

// peak is the most memory that the process has had, in bytes (proc_pid_status(5)).
func peak(b *bed.Bed, pid int) int64 {
	b.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b.T, err)
	_, line, found := strings.Cut(string(status), "VmHWM:")
	require.True(b.T, found)
	kib, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
	require.NoError(b.T, err)
	return kib << 10
}
