package responses_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// Calls and outputs that do not belong together are the client's mistake; codex
// would drop one, and make up the other.
func TestResponsesCheckCalls(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	for input, code := range map[string]string{
		`[{"role":"user","content":"q"},{"type":"function_call_output","call_id":"c","output":"x"}]`:   "tool_call_id_unknown",
		`[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f"}]`:            "tool_result_missing",
		`[{"type":"reasoning","summary":[]}]`:                                                          "input_required",
		`[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]`: "image_fetch_disabled",
	} {
		resp := r.Responding(t, apitest.Asked("", input))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, input)
		assert.Equal(t, code, apitest.Failure(t, apitest.Text(t, resp)).Error.Code, input)
	}
}

// Tools that a search has found are offered, and the search is a function to codex.
func TestResponsesFindTools(t *testing.T) {
	given := make(chan appservertest.Request, 4)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		if turn.Request.Prompt() == "search" {
			turn.Call(ctx, "tool_search", `{"query":"q"}`)
			return nil
		}
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t))
	const tools = `"tools":[{"type":"tool_search","execution":"client"}],`
	first := r.Whole(t, apitest.Asked(tools, `"search"`))
	require.Equal(t, "tool_search_call", first.Output[0].Type)
	r.Whole(t, apitest.Asked(tools+`"previous_response_id":"`+first.ID+`",`,
		`[{"type":"tool_search_output","call_id":"`+first.Output[0].CallID+`","tools":[{"type":"namespace","name":"ns","tools":[{"type":"function","name":"f"}]}]},{"role":"user","content":"go on"}]`))
	assert.Len(t, (<-given).DynamicTools, 1)
	second := <-given
	require.Len(t, second.DynamicTools, 2)
	assert.Equal(t, "ns__f", second.DynamicTools[1].Name)
	assert.Contains(t, string(second.Items[1]), `"name":"tool_search","arguments":"{\"query\":\"q\"}"`)
	assert.Contains(t, string(second.Items[2]), "The search has found")
}

// Tools that came earlier in the conversation can be chosen like those of the request.
func TestResponsesChooseEarlierTools(t *testing.T) {
	given := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(given)}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked("",
		`[{"type":"additional_tools","id":"at_1","tools":[{"type":"function","name":"weather"},{"type":"function","name":"time"}]},{"role":"user","content":"q"}]`))
	<-given
	const (
		named   = `"tool_choice":{"type":"function","name":"weather"},`
		unknown = `"tool_choice":{"type":"function","name":"climate"},`
		group   = `"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"weather"}]},`
	)
	continued := `"previous_response_id":"` + first.ID + `",`
	for _, tc := range []struct {
		extra, input string
		offered      int
		last         string
	}{
		{continued, `"q2"`, 2, "q2"},
		{continued + named, `"q2"`, 1, "the function weather."},
		{continued + group, `"q2"`, 1, "q2"},
		{continued + `"tool_choice":"required",`, `"q2"`, 2, "one of your functions."},
		{continued + `"tool_choice":"none",`, `"q2"`, 0, "q2"},
		{named, `[{"type":"item_reference","id":"at_1"},{"role":"user","content":"q2"}]`, 1, "the function weather."},
	} {
		r.Whole(t, apitest.Asked(tc.extra, tc.input))
		request := <-given
		assert.Len(t, request.DynamicTools, tc.offered, tc.extra)
		assert.Contains(t, string(request.Items[len(request.Items)-1]), tc.last, tc.extra)
	}
	for _, extra := range []string{continued + unknown, unknown} {
		resp := r.Responding(t, apitest.Asked(extra, `"q2"`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "tool_choice", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
	}
}
