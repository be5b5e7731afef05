package models_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai"
)

func catalogue() []appservertest.Model {
	return []appservertest.Model{{ID: "gpt-5"}, {ID: "gpt-5-mini"}, {ID: "org/tiny"},
		{ID: "secret-preview", Hidden: true}}
}

var someAliases = map[string]modelname.Alias{
	"gpt-5-high": {Model: "gpt-5", Effort: "high"},
	"fast":       {Model: "gpt-5-mini"},
	"gone":       {Model: "gpt-4"},
	"org/tiny":   {Model: "gpt-5"},
}

func modelRig(t *testing.T, worker *appservertest.Server) (*apitest.Rig, []string) {
	t.Helper()
	keys, secrets := apitest.WithKeys(t, "all", "few models=gpt-5-high,org/tiny,nothing")
	worker.Models = catalogue()
	return apitest.NewRig(t, worker, func(o *apitest.Options) { o.Keys, o.Aliases = keys, someAliases }), secrets
}

func TestModelsOfAKey(t *testing.T) {
	r, secrets := modelRig(t, &appservertest.Server{})
	for i, want := range [][]string{{"gpt-5", "gpt-5-mini", "org/tiny", "fast", "gpt-5-high"},
		{"org/tiny", "gpt-5-high"}} {
		var list openai.ModelList
		resp := r.Do(t, http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+secrets[i])
		require.NoError(t, json.Unmarshal([]byte(apitest.Text(t, resp)), &list))
		assert.Equal(t, "list", list.Object)
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
			assert.Equal(t, "model", m.Object)
		}
		assert.Equal(t, want, ids)
	}
}

func TestModelByID(t *testing.T) {
	r, secrets := modelRig(t, &appservertest.Server{})
	for _, tc := range []struct {
		key    int
		path   string
		id     string // empty: 404
		hinted string
	}{
		{0, "gpt-5", "gpt-5", ""},
		{0, "org/tiny", "org/tiny", ""},
		{0, "org%2Ftiny", "org/tiny", ""},
		{0, "gpt-5-high", "gpt-5-high", ""},
		{0, "secret-preview", "secret-preview", ""},
		{0, "gone", "", "GET /v1/models"},
		{0, "gpt5", "", "did you mean gpt-5?"},
		{0, "gpt-5-hihg", "", "did you mean gpt-5-high"},
		{0, "claude", "", "GET /v1/models"},
		{0, "gpt-5/", "", "did you mean gpt-5"},
		{1, "gpt-5-high", "gpt-5-high", ""},
		{1, "gpt-5", "", "GET /v1/models"},
		{1, "gpt-5-mini", "", "did you mean gpt-5-high?"},
		{1, "nothing", "", "GET /v1/models"},
	} {
		t.Run(fmt.Sprint(tc.key, " ", tc.path), func(t *testing.T) {
			resp := r.Do(t, http.MethodGet, "/v1/models/"+tc.path, "", "Authorization", "Bearer "+secrets[tc.key])
			body := apitest.Text(t, resp)
			if tc.id != "" {
				assert.JSONEq(t, fmt.Sprintf(`{"id":%q,"object":"model","created":1744761600,"owned_by":"codex"}`, tc.id), body)
				return
			}
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
			e := apitest.Failure(t, body).Error
			assert.Equal(t, "model_not_found", e.Code)
			assert.Equal(t, "model", *e.Param)
			assert.Contains(t, e.Message, tc.hinted)
			if tc.key == 1 {
				assert.NotContains(t, strings.Replace(e.Message, "`"+tc.path+"`", "", 1), "gpt-5-mini",
					"not a word of what the key may not see")
			}
		})
	}
	unready := apitest.NewRig(t, nil)
	assert.Equal(t, http.StatusServiceUnavailable, unready.Do(t, http.MethodGet, "/v1/models/gpt-5", "").StatusCode)
}

// An alias runs its model with its effort and answers by its own name.
func TestAliases(t *testing.T) {
	asked := make(chan appservertest.Request, 1)
	r, secrets := modelRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		asked <- turn.Request
		return appservertest.Reply("x")(ctx, turn)
	}})
	for i, tc := range []struct {
		key           int
		model, effort string
		status        int
		ran, with     string
	}{
		{0, "gpt-5-high", "", 200, "gpt-5", "high"},
		{0, "gpt-5-high", "high", 200, "gpt-5", "high"},
		{0, "gpt-5-high", "low", 400, "", ""},
		{0, "fast", "low", 200, "gpt-5-mini", "low"},
		{0, "org/tiny", "", 200, "org/tiny", ""}, // the worker's own, not the alias
		{0, "secret-preview", "", 200, "secret-preview", ""},
		{0, "gone", "", 404, "", ""},
		{1, "gpt-5-high", "", 200, "gpt-5", "high"},
		{1, "gpt-5", "", 404, "", ""},
		{1, "fast", "", 404, "", ""},
	} {
		t.Run(fmt.Sprint(tc.key, " ", tc.model, " ", tc.effort), func(t *testing.T) {
			id := fmt.Sprint("r", i)
			body := fmt.Sprintf(`{"model":%q,"reasoning_effort":%q,"messages":[{"role":"user","content":"hi"}]}`,
				tc.model, tc.effort)
			resp := r.Chatting(t, body, "Authorization", "Bearer "+secrets[tc.key], "X-Request-Id", id)
			answer := apitest.Text(t, resp)
			require.Equal(t, tc.status, resp.StatusCode, answer)
			if tc.status == http.StatusOK {
				assert.Contains(t, answer, fmt.Sprintf(`"model":%q`, tc.model))
				assert.Equal(t, tc.model, r.Log.Request(t, id)["model"])
				got := apitest.Received(t, asked)
				assert.Equal(t, []string{tc.ran, tc.with}, []string{got.Model, got.Effort})
			}
			if tc.status == http.StatusBadRequest {
				assert.Equal(t, "reasoning_effort", *apitest.Failure(t, answer).Error.Param)
				assert.NotRegexp(t, `gpt-5\b[^-]`, answer, "the other name is not told")
				resp := r.Responding(t,
					fmt.Sprintf(`{"model":%q,"reasoning":{"effort":%q},"input":"hi"}`, tc.model, tc.effort),
					"Authorization", "Bearer "+secrets[tc.key])
				assert.Equal(t, "reasoning.effort", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
			}
		})
	}
}

func TestAliasOfTheNameOfAModel(t *testing.T) {
	r, _ := modelRig(t, &appservertest.Server{})
	r.Catalogue.CheckAliases()
	r.Catalogue.CheckAliases()
	assert.Equal(t, 1, strings.Count(r.Log.String(), "an alias has no effect"))
	assert.Contains(t, r.Log.String(), `"alias":"org/tiny"`)
}
