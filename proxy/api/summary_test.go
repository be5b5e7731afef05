package api

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/modelname"
)

// The setting is the summary of requests that name none; that of an alias and that of the
// request come before it.
func TestDefaultSummary(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	handler := func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("hm")
		return answering(someUsage, "so")(ctx, turn)
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
			r := newRig(t, &appservertest.Server{Handler: handler}, func(o *options) {
				o.Summary = tc.setting
				o.Aliases = map[string]modelname.Alias{"plain": {Model: "demo"},
					"quiet": {Model: "demo", Summary: "none"}, "loud": {Model: "demo", Summary: "detailed"}}
			})
			reasoning := ""
			if tc.asked != "" {
				reasoning = fmt.Sprintf(`"reasoning":{"summary":%q},`, tc.asked)
			}
			bothForms(t, func(t *testing.T, form string) {
				got := readChat(t, r.chatting(t, fmt.Sprintf(
					`{%s%s"model":%q,"messages":[{"role":"user","content":"hi"}]}`, form, reasoning, tc.model)))
				assert.Equal(t, tc.want, received(t, requests).Summary)
				assert.Equal(t, tc.want != "", got.Reasoning[0] == "hm")
				assert.Equal(t, "so", got.Text[0])
			})
			resp := r.responding(t, fmt.Sprintf(`{%s"model":%q,"input":"hi"}`, reasoning, tc.model))
			body := text(t, resp)
			require.Equal(t, http.StatusOK, resp.StatusCode, body)
			received(t, requests)
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
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("hm")
		return answering(someUsage, "so")(ctx, turn)
	}}, func(o *options) { o.Summary = "auto" })
	assert.Equal(t, "so", completed(t, r.completing(t, ""), 1)[0].Text)
	assert.Empty(t, received(t, requests).Summary)
}
