package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rotations of one conversation are a minute apart, in whatever form its next request comes:
// a turn that a second account refuses waits in the queue, though a third has quota.
func TestConversationsPauseBetweenRotations(t *testing.T) {
	for form, tc := range map[string]struct {
		first, second string // %s: the id of the first response
		path          string
	}{
		"chat": {conversation("", "", 1), conversation("", "", 2), "/v1/chat/completions"},
		"prompt_cache_key": {conversation(`"prompt_cache_key":"k",`, "", 1), conversation(`"prompt_cache_key":"k",`, "other", 1),
			"/v1/chat/completions"},
		"repeated": {asked(`"store":false,`, `"one"`), asked(`"store":false,`,
			`[{"role":"user","content":"one"},{"role":"assistant","content":"x"},{"role":"user","content":"two"}]`),
			"/v1/responses"},
		"stored": {asked(`"instructions":"first",`, `"one"`),
			asked(`"instructions":"later","previous_response_id":"%s",`, `"two"`), "/v1/responses"},
		"response with prompt_cache_key": {asked(`"store":false,"prompt_cache_key":"k",`, `"one"`),
			asked(`"store":false,"prompt_cache_key":"k",`, `"two"`), "/v1/responses"},
	} {
		t.Run(form, func(t *testing.T) {
			f := newFleet("a", "b", "c")
			f.refuses("a", usedUp)
			r := f.rig(t, keeping(t))
			resp := r.do(t, http.MethodPost, tc.path, tc.first)
			answer := text(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode, answer)
			require.Len(t, f.got("b"), 1)
			f.refuses("b", usedUp)
			second := tc.second
			if strings.Contains(second, "%s") {
				second = fmt.Sprintf(second, read[seen](t, answer).ID)
			}
			r.untilWaiting(t, func(ctx context.Context) { _ = r.post(ctx, tc.path, second) })
			assert.Len(t, f.got("b"), 2)
			assert.Empty(t, f.got("c"))
			other := r.chatting(t, conversation("", "another", 1))
			assert.Equal(t, http.StatusOK, other.StatusCode, "another conversation has no pause")
			assert.Len(t, f.got("c"), 1)
		})
	}
}

// A WebSocket remembers the conversation of its last response.
func TestWebSocketsPauseBetweenRotations(t *testing.T) {
	f := newFleet("a", "b", "c")
	f.refuses("a", usedUp)
	r := f.rig(t)
	k := r.socket(t)
	k.say(`{"type":"response.create",` + asked(`"store":false,"instructions":"first",`, `"one"`)[1:])
	first := k.response()
	f.refuses("b", usedUp)
	k.say(`{"type":"response.create",` + asked(fmt.Sprintf(
		`"store":false,"instructions":"later","previous_response_id":%q,`, first.Response.ID), `"two"`)[1:])
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 1 && len(f.got("b")) == 2 })
	assert.Empty(t, f.got("c"))
}

// untilWaiting runs a request until it waits in the queue, and ends it.
func (r *rig) untilWaiting(t *testing.T, request func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); request(ctx) }()
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 1 })
	cancel()
	<-done
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 0 })
}

// post sends a request until ctx ends.
func (r *rig) post(ctx context.Context, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
