package admission_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/workers/dispatch"
)

// tooMuch is the refusal of images, which names the one that is too much.
func tooMuch(t *testing.T, resp *http.Response, param string) {
	t.Helper()
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "image_too_large", e.Code)
	require.NotNil(t, e.Param)
	assert.Equal(t, param, *e.Param)
	assert.Contains(t, e.Message, "3072 MiB")
}

func times(n int, one string) []string {
	return strings.Split(strings.Repeat(one+" ", n-1)+one, " ")
}

func TestImagesOfAChatTogether(t *testing.T) {
	worker := &appservertest.Server{Handler: appservertest.Reply("x")}
	r := apitest.NewRig(t, worker, func(o *apitest.Options) { o.Images = &apitest.Gallery{} })
	for name, tc := range map[string]struct{ body, param string }{
		"fifty": {looking("", times(50, apitest.Huge)...), "messages[0].content[5].image_url.url"},
		"five":  {looking("", times(5, apitest.Huge)...), "messages[0].content[5].image_url.url"},
		"fetched": {looking("", append(times(4, apitest.Huge), "https://x/huge")...),
			"messages[0].content[5].image_url.url"},
		"for a choice": {looking(`"n":2,`, times(3, apitest.Huge)...), "messages[0].content[3].image_url.url"},
		"streamed":     {looking(apitest.Streaming, times(5, apitest.Huge)...), "messages[0].content[5].image_url.url"},
	} {
		t.Run(name, func(t *testing.T) { tooMuch(t, r.Chatting(t, tc.body), tc.param) })
	}
	assert.NotContains(t, worker.Requests(), "thread/start")
	for _, body := range []string{looking("", times(4, apitest.Huge)...), looking("", times(50, apitest.OnePixel)...),
		looking(`"n":2,`, times(2, apitest.Huge)...)} {
		assert.Equal(t, http.StatusOK, r.Chatting(t, body).StatusCode)
	}
}

// inputImages is a message with that many large images.
func inputImages(n int) string {
	return `{"role":"user","content":[` +
		strings.Join(times(n, `{"type":"input_image","image_url":"`+apitest.Huge+`"}`), ",") + `]}`
}

// Of a response all images count: of messages, of outputs of tools, and those of the conversation that it continues or
// refers to. Those before the last message give way to it.
func TestImagesOfAResponseTogether(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(requests)}, apitest.Keeping(t))
	leavesOut := func(n int, body string) {
		t.Helper()
		require.Equal(t, http.StatusOK, r.Responding(t, body).StatusCode)
		left := 0
		for _, item := range apitest.Received(t, requests).Items {
			left += strings.Count(string(item), media.OmittedImage)
		}
		assert.Equal(t, n, left)
	}
	tooMuch(t, r.Responding(t, apitest.Asked("", `[`+inputImages(5)+`]`)), "input[0].content[4].image_url")
	leavesOut(1, apitest.Asked("", `[`+inputImages(2)+`,`+inputImages(3)+`]`))
	output := `{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":[` +
		strings.Join(times(6, `{"type":"input_image","image_url":"`+apitest.Huge+`"}`), ",") + `]}`
	leavesOut(2, apitest.Asked("", `[`+output+`]`))

	first := r.Whole(t, apitest.Asked("", `[`+inputImages(3)+`]`))
	apitest.Received(t, requests)
	continuing := `"previous_response_id":"` + first.ID + `",`
	leavesOut(1, apitest.Asked(continuing, `[`+inputImages(2)+`]`))
	leavesOut(0, apitest.Asked(continuing, `[`+inputImages(1)+`]`))

	items := apitest.Read[struct{ Data []apitest.SeenItem }](t,
		apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+first.ID+"/input_items", "")))
	again := `{"type":"item_reference","id":"` + items.Data[0].ID + `"}`
	leavesOut(2, apitest.Asked("", `[`+again+`,`+again+`]`))

	k := r.Socket(t)
	k.Say(apitest.Create(`"store":false,`, `[`+inputImages(3)+`]`))
	remembered := k.Response().Response.ID
	apitest.Received(t, requests)
	k.Say(apitest.Create(`"store":false,"previous_response_id":"`+remembered+`",`, `[`+inputImages(5)+`]`))
	assert.Equal(t, "image_too_large", k.Response().Error.Code)
}

// holding is a rig whose worker holds its answers to that method back until the gate is
// closed.
func holding(t *testing.T, method string, changes ...func(*apitest.Options)) (r *apitest.Rig, worker *appservertest.Server, came,
	gate chan struct{}) {
	t.Helper()
	came, gate = make(chan struct{}, 8), make(chan struct{})
	hold := appservertest.Held(gate)
	worker = &appservertest.Server{Handler: appservertest.Reply("x"), Faults: map[string]appservertest.Fault{
		method: func(ctx context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			came <- struct{}{}
			return hold(ctx, p, id)
		},
	}}
	return apitest.NewRig(t, worker, changes...), worker, came, gate
}

// A request whose images are too much for the time of a start is not run again, and
// its place is free when the worker is.
func TestHeavyStartsDoNotRunAgain(t *testing.T) {
	t.Parallel()
	r, worker, came, gate := holding(t, "thread/inject_items",
		func(o *apitest.Options) { o.Max, o.StartTimeout = 1, 4*time.Second }) // in which a busy worker starts
	resp := r.Chatting(t, looking("", apitest.Huge))
	assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "image_timeout", e.Code)
	assert.Equal(t, "messages", *e.Param)
	assert.Equal(t, "0", r.Retries(t, apitest.LostStart))
	apitest.Received(t, came)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
	assert.Equal(t, 1, r.TurnsOnWorker(), "codex decodes still")
	_, err := r.Pool.Acquire(whenGone(), dispatch.Ask{Model: "demo"})
	require.ErrorIs(t, err, context.Canceled)

	close(gate)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.TurnsOnWorker() == 0 })
	assert.Equal(t, http.StatusOK, r.Chatting(t, looking("", apitest.Huge)).StatusCode)
	assert.Contains(t, worker.Requests(), "thread/unsubscribe")
}

// whenGone is the context of a request whose client has left.
func whenGone() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Behind a worker that hangs, a request with a small image, or none, is as lost as ever.
func TestLightStartsRunAgain(t *testing.T) {
	for _, body := range []string{apitest.Hello(""), looking("", apitest.OnePixel)} {
		r, _, _, _ := holding(t, "thread/inject_items", func(o *apitest.Options) {
			o.Queue.Timeout, o.StartTimeout = 50*time.Millisecond, 50*time.Millisecond
		})
		resp := r.Chatting(t, body)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "there is no other worker")
		assert.Equal(t, "1", r.Retries(t, apitest.LostStart))
	}
}

// A client that leaves frees no place before the worker has answered what it was asked
// for it.
func TestPlacesOfClientsThatLeave(t *testing.T) {
	for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
		t.Run(method, func(t *testing.T) {
			r, _, came, gate := holding(t, method)
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions",
				strings.NewReader(looking("", apitest.Huge)))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			gone := make(chan error, 1)
			go func() {
				resp, err := r.Client.Do(req)
				if err == nil {
					resp.Body.Close()
				}
				gone <- err
			}()
			apitest.Received(t, came)
			leave()
			require.ErrorIs(t, apitest.Received(t, gone), context.Canceled)
			apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
			assert.Equal(t, 1, r.TurnsOnWorker())
			close(gate)
			apitest.Await(t, apitest.Tick(t), func() bool { return r.TurnsOnWorker() == 0 })
		})
	}
}

// So it is with a turn that was interrupted, until codex has confirmed that.
func TestPlacesOfInterruptedTurns(t *testing.T) {
	t.Parallel()
	r, worker, came, gate := holding(t, "turn/interrupt")
	began := make(chan struct{})
	worker.Handler = func(ctx context.Context, _ *appservertest.Turn) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions",
		strings.NewReader(apitest.Hello("")))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := r.Client.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	apitest.Received(t, began)
	leave()
	apitest.Received(t, came)
	<-gone
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 }) // closeTimeout has passed
	assert.Equal(t, 1, r.TurnsOnWorker())
	close(gate)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.TurnsOnWorker() == 0 })
}

// Images wait for room, which is free when they are decoded, long before their turn has
// ended; a request without any does not wait for it.
func TestRoomIsFreeWhenImagesAreDecoded(t *testing.T) {
	r, worker, came, gate := holding(t, "thread/inject_items")
	answers := make(chan struct{})
	worker.Handler = apitest.Gated(answers, "so ", "far")
	all := make(chan *http.Response, 2)
	for range 2 {
		go func() { all <- r.Chatting(t, looking(apitest.Streaming, apitest.Huge)) }()
	}
	apitest.Received(t, came)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 1 })
	assert.Empty(t, came, "the second waits")
	close(gate)
	apitest.Received(t, came)
	for range 2 {
		assert.Equal(t, http.StatusOK, apitest.Received(t, all).StatusCode)
	}
	assert.Equal(t, 2, r.Pool.Inflight(), "both turns run")
	close(answers)
}

// What a client sees that waited for room in vain.
func TestNoRoomForImages(t *testing.T) {
	r, _, _, _ := holding(t, "thread/inject_items", func(o *apitest.Options) { o.Queue.Timeout = 50 * time.Millisecond })
	first := make(chan *http.Response, 1)
	go func() { first <- r.Chatting(t, looking("", apitest.Huge)) }()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 1 })
	resp := r.Chatting(t, looking("", apitest.Huge))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "overloaded", e.Code)
	assert.Contains(t, e.Message, "images of other requests")
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	r.Abort()
	apitest.Received(t, first)
}

func TestHugeIsHuge(t *testing.T) {
	image := media.Image{URL: apitest.Huge}
	assert.InDelta(t, 673, float64(image.Decoding()>>20), 5)
}
