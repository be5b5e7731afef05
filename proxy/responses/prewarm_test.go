package responses_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/test/contract"
)

// A request that only prepares the prompt cache runs no turn and is charged no tokens; the next one continues it.
func TestPrewarm(t *testing.T) {
	given := make(chan appservertest.Request, 4)
	keys, secrets := apitest.WithKeys(t, "ann tokens-per-day=1000000")
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys = keys })
	bearer := []string{"Authorization", "Bearer " + secrets[0]}
	schema, err := contract.Compile()
	require.NoError(t, err)
	const prewarm = `"prompt_cache_options":{"prewarm":true},`

	whole := apitest.Text(t, r.Responding(t, apitest.Asked(prewarm, `"before"`), bearer...))
	require.NoError(t, schema.Check(contract.Response, []byte(whole)))
	first := apitest.Read[apitest.Seen](t, whole)
	assert.Equal(t, "completed", first.Status)
	assert.Empty(t, first.Output)
	assert.Zero(t, first.Usage.Total)
	stream := r.Responding(t, apitest.Asked(apitest.Streaming+prewarm, `"q"`), bearer...)
	_, err = schema.ResponseStream(stream.Body)
	require.NoError(t, err)
	list := apitest.Events(t, apitest.Text(t, r.Responding(t, apitest.Asked(apitest.Streaming+prewarm, `"q"`), bearer...)))
	assert.Equal(t, "response.completed", list[len(list)-1].Type)
	assert.Empty(t, list[len(list)-1].Response.Output)
	assert.Equal(t, "0", apitest.Metric(t, r, `codex_key_used{key="ann",limit="tokens-per-day"}`))

	missing := r.Responding(t, `{`+prewarm+`"model":"none","input":"q"}`, bearer...)
	assert.Equal(t, http.StatusNotFound, missing.StatusCode)
	assert.Empty(t, given, "no turn ran")

	second := r.Whole(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"q"`), bearer...)
	assert.Equal(t, "answer to q", second.Output[1].Content[0].Text)
	assert.Len(t, apitest.Received(t, given).Items, 2)
}

func TestPrewarmInTheBackground(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	for _, stream := range []string{"", apitest.Streaming} {
		body := apitest.Text(t, r.Responding(t, apitest.Asked(stream+`"background":true,"prompt_cache_options":{"prewarm":true},`, `"q"`)))
		if stream != "" {
			list := apitest.Events(t, body)
			assert.Equal(t, "response.completed", list[len(list)-1].Type)
			continue
		}
		done := r.Status(t, apitest.Read[apitest.Seen](t, body).ID, "completed")
		assert.Empty(t, done.Output)
	}
}

// A configuration_update holds for its response and those that continue it.
func TestConfigurationUpdates(t *testing.T) {
	given := make(chan appservertest.Request, 4)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked("", `[{"role":"user","content":"a"},
		{"type":"configuration_update","reasoning":{"effort":"low"}},{"role":"user","content":"b"}]`))
	sent := apitest.Received(t, given)
	assert.Equal(t, "low", sent.Effort)
	assert.Len(t, sent.Items, 2, "the model gets the messages")
	items := apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+first.ID+"/input_items", ""))
	assert.Contains(t, items, `"configuration_update"`)
	second := r.Responding(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"c"`))
	assert.Equal(t, "low", apitest.Read[struct{ Reasoning struct{ Effort string } }](t, apitest.Text(t, second)).Reasoning.Effort)
	assert.Equal(t, "low", apitest.Received(t, given).Effort)
	r.Whole(t, apitest.Asked(`"reasoning":{"effort":"high"},"previous_response_id":"`+first.ID+`",`, `"c"`))
	assert.Equal(t, "high", apitest.Received(t, given).Effort)
}

// Parameters of the reference that codex has no setting for are ignored and named.
func TestDocumentedParametersAreIgnored(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(`"image":{"context_compression":"auto"},"reasoning":{"mode":"standard"},
		"context_management":[{"type":"compaction","compact_threshold":100000}],
		"background_options":{"completion_window":"soonest"},`, `"q"`))
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "background_options, context_management, image, reasoning.mode", resp.Header.Get("X-Codex-Ignored-Params"))
}
