package models_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai"
)

// somePatterns are aliases, some of them with a *.
var somePatterns = map[string]modelname.Alias{
	"claude-*":        {Model: "gpt-5"},
	"claude-haiku-*":  {Model: "gpt-5-mini", Effort: "low"},
	"claude-*-latest": {Model: "org/tiny"},
	"claude-opus-4-5": {Model: "org/tiny", Effort: "high"},
	"gpt-5*":          {Model: "org/tiny"},
	"lost-*":          {Model: "gpt-4"},
}

func patternRig(t *testing.T, worker *appservertest.Server) (*apitest.Rig, []string) {
	t.Helper()
	keys, secrets := apitest.WithKeys(t, "all", "some models=claude-*,org/tiny", "few models=gpt-5")
	worker.Models = catalogue()
	return apitest.NewRig(t, worker, func(o *apitest.Options) { o.Keys, o.Aliases = keys, somePatterns }), secrets
}

// The name itself comes before patterns, and of these the most precise one; no pattern hides
// a model of a worker.
func TestAliasPatterns(t *testing.T) {
	asked := make(chan appservertest.Request, 1)
	r, secrets := patternRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		asked <- turn.Request
		return apitest.Answering(apitest.SomeUsage, "x")(ctx, turn)
	}})
	for i, tc := range []struct {
		key           int
		model, effort string
		status        int
		ran, with     string
		counted       string
	}{
		{0, "claude-sonnet-4-5", "", 200, "gpt-5", "", "claude-*"},
		{0, "claude-sonnet-4-6", "high", 200, "gpt-5", "high", "claude-*"},
		{0, "claude-haiku-4-5", "", 200, "gpt-5-mini", "low", "claude-haiku-*"},
		{0, "claude-haiku-4-5", "high", 400, "", "", ""},
		{0, "claude-opus-latest", "", 200, "org/tiny", "", "claude-*-latest"},
		{0, "claude-opus-4-5", "", 200, "org/tiny", "high", "claude-opus-4-5"},
		{0, "gpt-5-mini", "", 200, "gpt-5-mini", "", "gpt-5-mini"},
		{0, "gpt-5-huge", "", 200, "org/tiny", "", "gpt-5*"},
		{0, "claude-", "", 200, "gpt-5", "", "claude-*"},
		{0, "claude-*", "", 200, "gpt-5", "", "claude-*"},
		{0, "claude", "", 404, "", "", ""},
		{0, "lost-1", "", 404, "", "", ""},
		{1, "claude-sonnet-4-5", "", 200, "gpt-5", "", "claude-*"},
		{1, "gpt-5-huge", "", 404, "", "", ""},
		{2, "claude-sonnet-4-5", "", 404, "", "", ""},
	} {
		t.Run(fmt.Sprint(tc.key, " ", tc.model, " ", tc.effort), func(t *testing.T) {
			id := fmt.Sprint("p", i)
			resp := r.Chatting(t, fmt.Sprintf(`{"model":%q,"reasoning_effort":%q,"messages":[{"role":"user","content":"hi"}]}`,
				tc.model, tc.effort), "Authorization", "Bearer "+secrets[tc.key], "X-Request-Id", id)
			answer := apitest.Text(t, resp)
			require.Equal(t, tc.status, resp.StatusCode, answer)
			if tc.status != http.StatusOK {
				return
			}
			assert.Contains(t, answer, fmt.Sprintf(`"model":%q`, tc.model))
			assert.Equal(t, tc.model, r.Log.Request(t, id)["model"])
			got := apitest.Received(t, asked)
			assert.Equal(t, []string{tc.ran, tc.with}, []string{got.Model, got.Effort})
			assert.NotEmpty(t, apitest.Metric(t, r, fmt.Sprintf(`codex_usage_requests_total{key="%s",model="%s"}`,
				[]string{"all", "some"}[tc.key], tc.counted)))
		})
	}
	metrics := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", ""))
	assert.NotContains(t, metrics, "claude-sonnet", "names that clients make up are no series")
	r.Catalogue.CheckAliases()
	assert.NotContains(t, r.Log.String(), "an alias has no effect", "a pattern may match models of workers")
}

// A pattern is no model that a client can name; each name that it matches is one.
func TestAliasPatternsInLists(t *testing.T) {
	r, secrets := patternRig(t, &appservertest.Server{})
	for i, want := range [][]string{{"gpt-5", "gpt-5-mini", "org/tiny", "claude-opus-4-5"}, {"org/tiny", "claude-opus-4-5"},
		{"gpt-5"}} {
		var list openai.ModelList
		resp := r.Do(t, http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+secrets[i])
		require.NoError(t, json.Unmarshal([]byte(apitest.Text(t, resp)), &list))
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		assert.Equal(t, want, ids)
	}
	for path, status := range map[string]int{"claude-sonnet-4-5": 200, "lost-1": 404, "claude": 404} {
		resp := r.Do(t, http.MethodGet, "/v1/models/"+path, "", "Authorization", "Bearer "+secrets[0])
		assert.Equal(t, status, resp.StatusCode, path)
	}
}

// The effort of an alias counts before the one that a message wants, as Claude Code names one in
// each request; without one, a message gets the highest effort up to its own that the model has.
func TestAliasesOfMessages(t *testing.T) {
	asked := make(chan appservertest.Request, 1)
	worker := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		asked <- turn.Request
		return appservertest.Reply("x")(ctx, turn)
	}}
	// all others have the efforts low, medium and high
	worker.Models = append(catalogue(), appservertest.Model{ID: "quick", Efforts: []string{"none", "low"}})
	r := apitest.NewRig(t, worker, func(o *apitest.Options) { o.Aliases = somePatterns })
	for _, tc := range []struct{ model, wanted, ran, with, ignored string }{
		{"claude-sonnet-5", `"output_config":{"effort":"medium"}`, "gpt-5", "medium", ""},
		{"claude-sonnet-5", `"output_config":{"effort":"max"}`, "gpt-5", "high", "output_config.effort"},
		{"claude-sonnet-5", `"thinking":{"type":"enabled","budget_tokens":20000}`, "gpt-5", "high", ""},
		{"claude-haiku-5", `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`, "gpt-5-mini", "low",
			"output_config.effort"},
		{"claude-haiku-5", `"thinking":{"type":"enabled","budget_tokens":20000}`, "gpt-5-mini", "low",
			"thinking.budget_tokens"},
		{"claude-haiku-5", `"output_config":{"effort":"low"}`, "gpt-5-mini", "low", ""},
		{"claude-haiku-5", `"thinking":{"type":"disabled"}`, "gpt-5-mini", "low", "thinking"},
		{"claude-sonnet-5", `"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`, "gpt-5", "high", "thinking"},
		{"quick", `"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`, "quick", "none", ""},
		{"quick", `"thinking":{"type":"disabled"}`, "quick", "none", ""},
		{"claude-haiku-5", `"stream":false`, "gpt-5-mini", "low", ""},
	} {
		t.Run(tc.model+" "+tc.wanted, func(t *testing.T) {
			resp := r.Do(t, http.MethodPost, "/v1/messages", fmt.Sprintf(
				`{%s,"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, tc.wanted, tc.model))
			answer := apitest.Text(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode, answer)
			assert.Contains(t, answer, fmt.Sprintf(`"model":%q`, tc.model))
			got := apitest.Received(t, asked)
			assert.Equal(t, []string{tc.ran, tc.with}, []string{got.Model, got.Effort})
			ignored := strings.Split(resp.Header.Get("X-Codex-Ignored-Params"), ", ")
			assert.Equal(t, tc.ignored != "", slices.Contains(ignored, tc.ignored), ignored)
		})
	}
}
