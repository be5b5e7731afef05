package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
)

// What OpenAI's API has beside language models is explained to the holder of a key, and to
// nobody else.
func TestUnserved(t *testing.T) {
	keys, secrets := withKeys(t, "some")
	r := newRig(t, &appservertest.Server{}, func(o *options) { o.Keys = keys })
	for _, path := range []string{
		"/v1/embeddings", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio", "/v1/images/generations",
		"/v1/images/edits", "/v1/files", "/v1/files/file-1/content", "/v1/batches", "/v1/batches/b/cancel",
		"/v1/moderations",
	} {
		methods := []string{http.MethodPost, http.MethodPut, "PURGE", http.MethodGet, http.MethodDelete}
		for _, method := range methods {
			resp := r.do(t, method, path, "")
			assert.Equal(t, http.StatusUnauthorized, resp.StatusCode, "%s %s", method, path)
			resp = r.do(t, method, path, "", "Authorization", "Bearer "+secrets[0])
			assert.Equal(t, http.StatusNotFound, resp.StatusCode, "%s %s", method, path)
			e := failure(t, text(t, resp)).Error
			assert.Equal(t, "not_supported", e.Code)
			assert.Equal(t, "invalid_request_error", e.Type)
			assert.Nil(t, e.Param)
			assert.Contains(t, e.Message, "/v1/chat/completions")
			unsupported, _, _ := strings.Cut(e.Message, " is not supported")
			assert.True(t, strings.HasPrefix(path, unsupported), e.Message)
		}
	}
	assert.Equal(t, http.StatusNotFound, r.do(t, http.MethodPost, "/v1/audiobooks", "").StatusCode)
	resp := r.do(t, http.MethodPost, "/v1/responses/resp_1", "", "Authorization", "Bearer "+secrets[0])
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	assert.Equal(t, http.StatusNoContent, r.do(t, http.MethodOptions, "/v1/files/file-1", "").StatusCode)

	metrics := text(t, r.do(t, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+secrets[0]))
	assert.Contains(t, metrics, `route="/v1/files/{path...}"`)
	assert.NotContains(t, metrics, "file-1")
	assert.NotContains(t, metrics, "PURGE")
}

// A path that was mistyped is not led to one that is not supported.
func TestNoHintAtTheUnserved(t *testing.T) {
	r := newRig(t, &appservertest.Server{})
	e := failure(t, text(t, r.do(t, http.MethodPost, "/embeddings", ""))).Error
	assert.Equal(t, "not_found", e.Code)
	assert.NotContains(t, e.Message, "did you mean")
	assert.Contains(t, failure(t, text(t, r.do(t, http.MethodPost, "/completions", ""))).Error.Message,
		"did you mean /v1/completions?")
}
