package admission_test

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
	"codex-proxy/proxy/api/apitest"
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	const mark = "\xef\xbb\xbf"
	long := apitest.Asked("", `"`+strings.Repeat("x", 300<<10)+`"`)
	for _, coding := range []string{"gzip", "x-gzip", "GZIP", "zstd", "identity", ""} {
		for _, body := range []string{apitest.Asked("", `"q"`), mark + apitest.Asked("", `"q"`), long} {
			sent := body
			if coding != "identity" && coding != "" {
				sent = coded(t, strings.ToLower(coding), body)
			}
			assert.Equal(t, "completed", r.Whole(t, sent, "Content-Encoding", coding).Status, coding)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/v1/responses",
				io.MultiReader(strings.NewReader(sent))) // of unknown length
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Content-Encoding", coding)
			resp, err := r.Client.Do(req)
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, resp.StatusCode, coding)
			require.NoError(t, resp.Body.Close())
		}
	}
	created := r.Do(t, http.MethodPost, "/v1/conversations", coded(t, "gzip", `{"metadata":{"a":"b"}}`), "Content-Encoding", "gzip")
	assert.Equal(t, http.StatusOK, created.StatusCode)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// What a body becomes is bounded as other bodies are, and so is the memory for it.
func TestCodedBodiesAreBounded(t *testing.T) {
	t.Parallel()
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.BodyLimit, o.RequestMemory = 1<<20, 8<<20 })
	bomb := apitest.Asked("", `"`+strings.Repeat("x", 16<<20)+`"`)
	for _, coding := range []string{"gzip", "zstd"} {
		small := coded(t, coding, bomb)
		require.Less(t, len(small), 1<<20)
		for body, want := range map[string]struct {
			status int
			code   string
		}{
			small: {http.StatusRequestEntityTooLarge, "request_too_large"},
			coded(t, coding, apitest.Asked("", `"q"`))[:30]: {http.StatusBadRequest, "body_unreadable"},
			apitest.Asked("", `"q"`):                        {http.StatusBadRequest, "body_unreadable"},
			coded(t, coding, "{"):                           {http.StatusBadRequest, "invalid_json"},
			"":                                              {http.StatusBadRequest, "body_unreadable"},
			coded(t, coding, apitest.Asked("", `"q"`)) + "more": {http.StatusBadRequest, "body_unreadable"},
		} {
			resp := r.Responding(t, body, "Content-Encoding", coding, "Content-Type", "application/json")
			assert.Equal(t, want.status, resp.StatusCode, "%s: %.40q", coding, body)
			assert.Equal(t, want.code, apitest.Failure(t, apitest.Text(t, resp)).Error.Code, "%s: %.40q", coding, body)
		}
	}
	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(16<<20))
	require.NoError(t, err)
	_, err = io.WriteString(w, bomb)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	resp := r.Responding(t, wide.String(), "Content-Encoding", "zstd")
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.Contains(t, apitest.Text(t, resp), "window")
}

// Decoding waits for memory, too, although the body as it came is small enough to have some reserved.
func TestDecodingWaitsForMemory(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.QueueTimeout = 10 * time.Millisecond })
	full := apitest.Fill(t, r.Memory)
	resp := r.Responding(t, coded(t, "zstd", apitest.Asked("", `"q"`)), "Content-Encoding", "zstd")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "overloaded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	full.Release()
	assert.Equal(t, "completed", r.Whole(t, coded(t, "zstd", apitest.Asked(`"store":false,`, `"q"`)), "Content-Encoding", "zstd").Status)
}

func TestOtherCodingsAreRefused(t *testing.T) {
	r := apitest.NewRig(t, nil)
	for _, coding := range []string{"br", "deflate", "gzip, gzip", "nothing"} {
		resp := r.Responding(t, apitest.Asked("", `"q"`), "Content-Encoding", coding)
		assert.Equal(t, http.StatusUnsupportedMediaType, resp.StatusCode, coding)
		assert.Equal(t, "gzip, zstd", resp.Header.Get("Accept-Encoding"))
	}
}
