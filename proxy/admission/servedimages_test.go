package admission_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

func looking(extra string, urls ...string) string {
	var parts []string
	for _, url := range urls {
		parts = append(parts, fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q,"detail":"high"}}`, url))
	}
	return `{` + extra + `"model":"demo","messages":[{"role":"user","name":"bob","content":[{"type":"text","text":"see"},` + strings.Join(parts, ",") + `,{"type":"text","text":"?"}]}]}`
}

func TestImagesReachTheWorker(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	g := &apitest.Gallery{}
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return nil
	}}, func(o *apitest.Options) { o.Images = g })
	require.Equal(t, http.StatusOK, r.Chatting(t, looking("", apitest.OnePixel, "https://example.com/a.png")).StatusCode)
	const image = `{"type":"input_image","image_url":"` + apitest.OnePixel + `","detail":"high"}`
	assert.JSONEq(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"[name: bob]\n"},{"type":"input_text","text":"see"},`+
		image+`,`+image+`,{"type":"input_text","text":"?"}]}`, string(apitest.Received(t, requests).Items[0]))
	assert.EqualValues(t, 1, g.Fetched.Load())
}

func TestImagesThatCannotBeHad(t *testing.T) {
	const at = "messages[0].content[1].image_url.url"
	worker := &appservertest.Server{Handler: appservertest.Reply("x")}
	r := apitest.NewRig(t, worker, func(o *apitest.Options) { o.Images, o.BodyLimit = &apitest.Gallery{}, 1300 })
	for url, want := range map[string]struct {
		status int
		code   string
	}{
		"https://x/private": {http.StatusBadRequest, "image_address_forbidden"},
		"https://x/a.html":  {http.StatusBadRequest, "invalid_image_url"},
		"https://x/nothing": {http.StatusInternalServerError, "internal_error"},
	} {
		resp := r.Chatting(t, looking("", url))
		assert.Equal(t, want.status, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, want.code, e.Code)
		if want.code != "internal_error" {
			require.NotNil(t, e.Param)
			assert.Equal(t, at, *e.Param)
		}
	}
	many := looking("", slices.Repeat([]string{"https://x/1.png"}, 12)...)
	require.Less(t, len(many), 1300, "the body is not what is too large")
	resp := r.Chatting(t, many)
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.NotContains(t, worker.Requests(), "thread/start")

	off := apitest.NewRig(t, worker)
	assert.Equal(t, "image_fetch_disabled",
		apitest.Failure(t, apitest.Text(t, off.Chatting(t, looking("", "https://x/1.png")))).Error.Code)
}

func TestFetchingEndsWithTheRequest(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Images, o.RequestTimeout = &apitest.Gallery{}, 1 })
	resp := r.Chatting(t, looking("", "https://x/slow"))
	assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	assert.Equal(t, "request_timeout", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
}

// One key's slow images keep nobody else's from being fetched, in however many
// requests they come.
func TestFetchingIsSharedBetweenKeys(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann", "bob")
	g := &apitest.Gallery{Begun: make(chan struct{}, 16)}
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")},
		func(o *apitest.Options) { o.Images, o.Keys = g, keys })
	ctx, cancel := context.WithCancel(t.Context())
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	for range 2 {
		body := looking("", "https://x/1slow", "https://x/2slow")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions",
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+secrets[0])
		asked.Go(func() {
			if resp, err := r.Client.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	const parallelImages = 3
	for range parallelImages {
		apitest.Received(t, g.Begun)
	}
	resp := r.Chatting(t, looking("", "https://x/a.png"), "Authorization", "Bearer "+secrets[1])
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.EqualValues(t, parallelImages+1, g.Fetched.Load(), "the fourth waits for a place of its key")
}
