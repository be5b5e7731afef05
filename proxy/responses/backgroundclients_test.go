package responses_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// openai-go asks for a stream in the body of a GET, without a Content-Type; other bodies have no effect.
func TestResumeAsOpenAIsGoLibrary(t *testing.T) {
	t.Parallel()
	r := apitest.NewRig(t, &appservertest.Server{}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
	id, created, body := streamOf(t, resp)
	whole := created + all(t, body)
	path := "/v1/responses/" + id
	for after, want := range map[string]string{"": whole, "?starting_after=0": whole[len(created):]} {
		resp := r.Do(t, http.MethodGet, path+after, `{"stream":true}`, "Content-Type", "")
		assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
		assert.Equal(t, want, all(t, resp.Body))
	}
	for _, body := range []string{"", "{}", `{"stream":false}`, `{"stream":"yes"}`, `{`, strings.Repeat(" ", 1<<20)} {
		resp := r.Do(t, http.MethodGet, path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		assert.Equal(t, id, apitest.Read[apitest.Seen](t, apitest.Text(t, resp)).ID)
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}
