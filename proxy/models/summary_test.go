package models_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/modelname"
)

// The setting is the summary of requests that name none; that of an alias and that of the
// request come before it.
func TestDefaultSummary(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	handler := func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("hm")
		return apitest.Answering(apitest.SomeUsage, "so")(ctx, turn)
	}
	for _, tc := range []struct{ setting, model, asked, want string }{
		{"", "demo", "", ""},
		{"none", "demo", "", ""},
		{"auto", "demo", "", "auto"},
		{"auto", "demo", "detailed", "detailed"},
		{"auto", "demo", "none", ""},
		{"none", "demo", "concise", "concise"},
		{"auto", "plain", "", "auto"},
		{"auto", "quiet", "", ""},
		{"auto", "quiet", "auto", "auto"},
		{"none", "loud", "", "detailed"},
		{"none", "loud", "none", ""},
	} {
		t.Run(fmt.Sprintf("%s %s %s", tc.setting, tc.model, tc.asked), func(t *testing.T) {
			r := apitest.NewRig(t, &appservertest.Server{Handler: handler}, func(o *apitest.Options) {
				o.Summary = tc.setting
				o.Aliases = map[string]modelname.Alias{"plain": {Model: "demo"},
					"quiet": {Model: "demo", Summary: "none"}, "loud": {Model: "demo", Summary: "detailed"}}
			})
			reasoning := ""
			if tc.asked != "" {
				reasoning = fmt.Sprintf(`"reasoning":{"summary":%q},`, tc.asked)
			}
			apitest.BothForms(t, func(t *testing.T, form string) {
				got := apitest.ReadChat(t, r.Chatting(t, fmt.Sprintf(
					`{%s%s"model":%q,"messages":[{"role":"user","content":"hi"}]}`, form, reasoning, tc.model)))
				assert.Equal(t, tc.want, apitest.Received(t, requests).Summary)
				assert.Equal(t, tc.want != "", got.Reasoning[0] == "hm")
				assert.Equal(t, "so", got.Text[0])
			})
			resp := r.Responding(t, fmt.Sprintf(`{%s"model":%q,"input":"hi"}`, reasoning, tc.model))
			body := apitest.Text(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode, body)
			apitest.Received(t, requests)
			if tc.want == "" {
				assert.NotContains(t, body, "hm")
				return
			}
			assert.Contains(t, body, `{"type":"summary_text","text":"hm"}`)
			assert.Contains(t, body, fmt.Sprintf(`"summary":%q`, tc.want))
		})
	}
}

// A completion of a prompt has no place for a summary: its turn makes none.
func TestNoSummaryInACompletion(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("hm")
		return apitest.Answering(apitest.SomeUsage, "so")(ctx, turn)
	}}, func(o *apitest.Options) { o.Summary = "auto" })
	assert.Equal(t, "so", apitest.Completed(t, r.Completing(t, ""), 1)[0].Text)
	assert.Empty(t, apitest.Received(t, requests).Summary)
}
