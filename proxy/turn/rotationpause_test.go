package turn_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/api/apitest"
)

// Rotations of one conversation are a minute apart, in whatever form its next request comes:
// a turn that a second account refuses waits in the queue, though a third has quota.
func TestConversationsPauseBetweenRotations(t *testing.T) {
	for form, tc := range map[string]struct {
		first, second string // %s: the id of the first response
		path          string
	}{
		"chat": {apitest.Conversation("", "", 1), apitest.Conversation("", "", 2), "/v1/chat/completions"},
		"prompt_cache_key": {apitest.Conversation(`"prompt_cache_key":"k",`, "", 1), apitest.Conversation(`"prompt_cache_key":"k",`, "other", 1),
			"/v1/chat/completions"},
		"repeated": {apitest.Asked(`"store":false,`, `"one"`), apitest.Asked(`"store":false,`,
			`[{"role":"user","content":"one"},{"role":"assistant","content":"x"},{"role":"user","content":"two"}]`),
			"/v1/responses"},
		"stored": {apitest.Asked(`"instructions":"first",`, `"one"`),
			apitest.Asked(`"instructions":"later","previous_response_id":"%s",`, `"two"`), "/v1/responses"},
		"response with prompt_cache_key": {apitest.Asked(`"store":false,"prompt_cache_key":"k",`, `"one"`),
			apitest.Asked(`"store":false,"prompt_cache_key":"k",`, `"two"`), "/v1/responses"},
	} {
		t.Run(form, func(t *testing.T) {
			f := apitest.NewFleet("a", "b", "c")
			f.Refuses("a", apitest.UsedUp)
			r := f.Rig(t, apitest.Keeping(t))
			resp := r.Do(t, http.MethodPost, tc.path, tc.first)
			answer := apitest.Text(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode, answer)
			require.Len(t, f.Got("b"), 1)
			f.Refuses("b", apitest.UsedUp)
			second := tc.second
			if strings.Contains(second, "%s") {
				second = fmt.Sprintf(second, apitest.Read[apitest.Seen](t, answer).ID)
			}
			r.UntilWaiting(t, func(ctx context.Context) { _ = r.Post(ctx, tc.path, second) })
			assert.Len(t, f.Got("b"), 2)
			assert.Empty(t, f.Got("c"))
			other := r.Chatting(t, apitest.Conversation("", "another", 1))
			assert.Equal(t, http.StatusOK, other.StatusCode, "another conversation has no pause")
			assert.Len(t, f.Got("c"), 1)
		})
	}
}

// A WebSocket remembers the conversation of its last response.
func TestWebSocketsPauseBetweenRotations(t *testing.T) {
	f := apitest.NewFleet("a", "b", "c")
	f.Refuses("a", apitest.UsedUp)
	r := f.Rig(t)
	k := r.Socket(t)
	k.Say(`{"type":"response.create",` + apitest.Asked(`"store":false,"instructions":"first",`, `"one"`)[1:])
	first := k.Response()
	f.Refuses("b", apitest.UsedUp)
	k.Say(`{"type":"response.create",` + apitest.Asked(fmt.Sprintf(
		`"store":false,"instructions":"later","previous_response_id":%q,`, first.Response.ID), `"two"`)[1:])
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 1 && len(f.Got("b")) == 2 })
	assert.Empty(t, f.Got("c"))
}
