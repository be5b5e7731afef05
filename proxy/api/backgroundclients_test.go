package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// openai-go asks for a stream in the body of a GET, without a Content-Type; other bodies have no effect.
func TestResumeAsOpenAIsGoLibrary(t *testing.T) {
	t.Parallel()
	r := newRig(t, &appservertest.Server{}, keeping(t))
	resp := r.responding(t, asked(inBackground+streaming, `"q"`))
	id, created, body := streamOf(t, resp)
	whole := created + all(t, body)
	path := "/v1/responses/" + id
	for after, want := range map[string]string{"": whole, "?starting_after=0": whole[len(created):]} {
		resp := r.do(t, http.MethodGet, path+after, `{"stream":true}`, "Content-Type", "")
		assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
		assert.Equal(t, want, all(t, resp.Body))
	}
	for _, body := range []string{"", "{}", `{"stream":false}`, `{"stream":"yes"}`, `{`, strings.Repeat(" ", 1<<20)} {
		resp := r.do(t, http.MethodGet, path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		assert.Equal(t, id, read[seen](t, text(t, resp)).ID)
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}
