package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// What OpenAI's API has beside language models is explained to the holder of a key, and to
// nobody else.
func TestUnserved(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "some")
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Keys = keys })
	for _, path := range []string{
		"/v1/embeddings", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio", "/v1/images/generations",
		"/v1/images/edits", "/v1/files", "/v1/files/file-1/content", "/v1/batches", "/v1/batches/b/cancel",
		"/v1/moderations",
	} {
		methods := []string{http.MethodPost, http.MethodPut, "PURGE", http.MethodGet, http.MethodDelete}
		for _, method := range methods {
			resp := r.Do(t, method, path, "")
			assert.Equal(t, http.StatusUnauthorized, resp.StatusCode, "%s %s", method, path)
			resp = r.Do(t, method, path, "", "Authorization", "Bearer "+secrets[0])
			assert.Equal(t, http.StatusNotFound, resp.StatusCode, "%s %s", method, path)
			e := apitest.Failure(t, apitest.Text(t, resp)).Error
			assert.Equal(t, "not_supported", e.Code)
			assert.Equal(t, "invalid_request_error", e.Type)
			assert.Nil(t, e.Param)
			assert.Contains(t, e.Message, "/v1/chat/completions")
			unsupported, _, _ := strings.Cut(e.Message, " is not supported")
			assert.True(t, strings.HasPrefix(path, unsupported), e.Message)
		}
	}
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodPost, "/v1/audiobooks", "").StatusCode)
	resp := r.Do(t, http.MethodPost, "/v1/responses/resp_1", "", "Authorization", "Bearer "+secrets[0])
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	assert.Equal(t, http.StatusNoContent, r.Do(t, http.MethodOptions, "/v1/files/file-1", "").StatusCode)

	metrics := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+secrets[0]))
	assert.Contains(t, metrics, `route="/v1/files/{path...}"`)
	assert.NotContains(t, metrics, "file-1")
	assert.NotContains(t, metrics, "PURGE")
}

// A path that was mistyped is not led to one that is not supported.
func TestNoHintAtTheUnserved(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{})
	e := apitest.Failure(t, apitest.Text(t, r.Do(t, http.MethodPost, "/embeddings", ""))).Error
	assert.Equal(t, "not_found", e.Code)
	assert.NotContains(t, e.Message, "did you mean")
	assert.Contains(t, apitest.Failure(t, apitest.Text(t, r.Do(t, http.MethodPost, "/completions", ""))).Error.Message,
		"did you mean /v1/completions?")
}
