package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/openai"
)

// onePixel is a PNG.
const onePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// gallery fetches by the last word of a URL.
type gallery struct {
	fetched atomic.Int64
	begun   chan struct{} // if set: told of each that is slow
}

func (g *gallery) Inline(ctx context.Context, url string) (string, error) {
	g.fetched.Add(1)
	switch {
	case strings.HasSuffix(url, "png"):
		return onePixel, nil
	case strings.HasSuffix(url, "huge"):
		return huge, nil
	case strings.HasSuffix(url, "html"):
		return "data:image/png;base64,PGh0bWw+", nil
	case strings.HasSuffix(url, "private"):
		return "", openai.Invalid("image_address_forbidden", "", "not there")
	case strings.HasSuffix(url, "slow"):
		if g.begun != nil {
			g.begun <- struct{}{}
		}
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "", errors.New("the fetcher is broken")
}

func looking(extra string, urls ...string) string {
	var parts []string
	for _, url := range urls {
		parts = append(parts, fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q,"detail":"high"}}`, url))
	}
	return `{` + extra + `"model":"demo","messages":[{"role":"user","name":"bob","content":[{"type":"text","text":"see"},` + strings.Join(parts, ",") + `,{"type":"text","text":"?"}]}]}`
}

func TestImagesReachTheWorker(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	g := &gallery{}
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return nil
	}}, func(o *options) { o.Images = g })
	require.Equal(t, http.StatusOK, r.chatting(t, looking("", onePixel, "https://example.com/a.png")).StatusCode)
	const image = `{"type":"input_image","image_url":"` + onePixel + `","detail":"high"}`
	assert.JSONEq(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"[name: bob]\n"},{"type":"input_text","text":"see"},`+
		image+`,`+image+`,{"type":"input_text","text":"?"}]}`, string(received(t, requests).Items[0]))
	assert.EqualValues(t, 1, g.fetched.Load())
}

func TestImagesThatCannotBeHad(t *testing.T) {
	const at = "messages[0].content[1].image_url.url"
	worker := &appservertest.Server{Handler: appservertest.Reply("x")}
	r := newRig(t, worker, func(o *options) { o.Images, o.BodyLimit = &gallery{}, 1300 })
	for url, want := range map[string]struct {
		status int
		code   string
	}{
		"https://x/private": {http.StatusBadRequest, "image_address_forbidden"},
		"https://x/a.html":  {http.StatusBadRequest, "invalid_image_url"},
		"https://x/nothing": {http.StatusInternalServerError, "internal_error"},
	} {
		resp := r.chatting(t, looking("", url))
		assert.Equal(t, want.status, resp.StatusCode)
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, want.code, e.Code)
		if want.code != "internal_error" {
			require.NotNil(t, e.Param)
			assert.Equal(t, at, *e.Param)
		}
	}
	many := looking("", slices.Repeat([]string{"https://x/1.png"}, 12)...)
	require.Less(t, len(many), 1300, "the body is not what is too large")
	resp := r.chatting(t, many)
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.NotContains(t, worker.Requests(), "thread/start")

	off := newRig(t, worker)
	assert.Equal(t, "image_fetch_disabled",
		failure(t, text(t, off.chatting(t, looking("", "https://x/1.png")))).Error.Code)
}

func TestFetchingEndsWithTheRequest(t *testing.T) {
	r := newRig(t, &appservertest.Server{}, func(o *options) { o.Images, o.RequestTimeout = &gallery{}, 1 })
	resp := r.chatting(t, looking("", "https://x/slow"))
	assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	assert.Equal(t, "request_timeout", failure(t, text(t, resp)).Error.Code)
}

// One key's slow images keep nobody else's from being fetched, in however many
// requests they come.
func TestFetchingIsSharedBetweenKeys(t *testing.T) {
	keys, secrets := withKeys(t, "ann", "bob")
	g := &gallery{begun: make(chan struct{}, 16)}
	r := newRig(t, &appservertest.Server{Handler: appservertest.Reply("x")},
		func(o *options) { o.Images, o.Keys = g, keys })
	ctx, cancel := context.WithCancel(t.Context())
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	for range 2 {
		body := looking("", "https://x/1slow", "https://x/2slow")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions",
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+secrets[0])
		asked.Go(func() {
			if resp, err := r.client.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	const parallelImages = 3
	for range parallelImages {
		received(t, g.begun)
	}
	resp := r.chatting(t, looking("", "https://x/a.png"), "Authorization", "Bearer "+secrets[1])
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.EqualValues(t, parallelImages+1, g.fetched.Load(), "the fourth waits for a place of its key")
}
