package api

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// coded is a body in a coding.
func coded(t *testing.T, coding, body string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if coding == "zstd" {
		var err error
		w, err = zstd.NewWriter(&b)
		require.NoError(t, err)
	}
	_, err := io.WriteString(w, body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// Bodies may be compressed and begin with a byte order mark.
func TestCodedBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, &appservertest.Server{Handler: thinker}, keeping(t))
	const mark = "\xef\xbb\xbf"
	long := asked("", `"`+strings.Repeat("x", 300<<10)+`"`)
	for _, coding := range []string{"gzip", "x-gzip", "GZIP", "zstd", "identity", ""} {
		for _, body := range []string{asked("", `"q"`), mark + asked("", `"q"`), long} {
			sent := body
			if coding != "identity" && coding != "" {
				sent = coded(t, strings.ToLower(coding), body)
			}
			assert.Equal(t, "completed", r.whole(t, sent, "Content-Encoding", coding).Status, coding)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/responses",
				io.MultiReader(strings.NewReader(sent))) // of unknown length
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Content-Encoding", coding)
			resp, err := r.client.Do(req)
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, resp.StatusCode, coding)
			require.NoError(t, resp.Body.Close())
		}
	}
	created := r.do(t, http.MethodPost, "/v1/conversations", coded(t, "gzip", `{"metadata":{"a":"b"}}`), "Content-Encoding", "gzip")
	assert.Equal(t, http.StatusOK, created.StatusCode)
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// What a body becomes is bounded as other bodies are, and so is the memory for it.
func TestCodedBodiesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.BodyLimit, o.RequestMemory = 1<<20, 8<<20 })
	bomb := asked("", `"`+strings.Repeat("x", 64<<20)+`"`)
	for _, coding := range []string{"gzip", "zstd"} {
		small := coded(t, coding, bomb)
		require.Less(t, len(small), 1<<20)
		for body, want := range map[string]struct {
			status int
			code   string
		}{
			small:                                   {http.StatusRequestEntityTooLarge, "request_too_large"},
			coded(t, coding, asked("", `"q"`))[:30]: {http.StatusBadRequest, "body_unreadable"},
			asked("", `"q"`):                        {http.StatusBadRequest, "body_unreadable"},
			coded(t, coding, "{"):                   {http.StatusBadRequest, "invalid_json"},
			"":                                      {http.StatusBadRequest, "body_unreadable"},
			coded(t, coding, asked("", `"q"`)) + "more": {http.StatusBadRequest, "body_unreadable"},
		} {
			resp := r.responding(t, body, "Content-Encoding", coding, "Content-Type", "application/json")
			assert.Equal(t, want.status, resp.StatusCode, "%s: %.40q", coding, body)
			assert.Equal(t, want.code, failure(t, text(t, resp)).Error.Code, "%s: %.40q", coding, body)
		}
	}
	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(16<<20))
	require.NoError(t, err)
	_, err = io.WriteString(w, bomb)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	resp := r.responding(t, wide.String(), "Content-Encoding", "zstd")
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.Contains(t, text(t, resp), "window")
}

// Decoding waits for memory, too, although the body as it came is small enough to have some reserved.
func TestDecodingWaitsForMemory(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.QueueTimeout = 10 * time.Millisecond })
	full := fill(t, r.Memory)
	resp := r.responding(t, coded(t, "zstd", asked("", `"q"`)), "Content-Encoding", "zstd")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "overloaded", failure(t, text(t, resp)).Error.Code)
	full.release()
	assert.Equal(t, "completed", r.whole(t, coded(t, "zstd", asked(`"store":false,`, `"q"`)), "Content-Encoding", "zstd").Status)
}

func TestOtherCodingsAreRefused(t *testing.T) {
	r := newRig(t, nil)
	for _, coding := range []string{"br", "deflate", "gzip, gzip", "nothing"} {
		resp := r.responding(t, asked("", `"q"`), "Content-Encoding", coding)
		assert.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode, coding)
		assert.Equal(t, "gzip, zstd", resp.Header.Get("Accept-Encoding"))
	}
}
