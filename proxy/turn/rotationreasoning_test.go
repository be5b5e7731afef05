package turn_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/api/apitest"
)

// paths are the ways in which a client continues a response: it repeats the output, or refers
// to it. second runs between the two turns.
var paths = map[string]func(t *testing.T, r *apitest.Rig, second func()){
	"repeated": func(t *testing.T, r *apitest.Rig, second func()) {
		const stateless = `"store":false,"include":["reasoning.encrypted_content"],`
		first := r.Whole(t, apitest.Asked(stateless, `"one"`))
		second()
		r.Whole(t, apitest.Asked(stateless, repeating(t, first, "one", "two")))
	},
	"stored": func(t *testing.T, r *apitest.Rig, second func()) {
		first := r.Whole(t, apitest.Asked("", `"one"`))
		second()
		r.Whole(t, apitest.Asked(fmt.Sprintf(`"previous_response_id":%q,`, first.ID), `"two"`))
	},
	"item reference": func(t *testing.T, r *apitest.Rig, second func()) {
		first := r.Whole(t, apitest.Asked("", `"one"`))
		second()
		references := ""
		for _, item := range first.Output {
			references += fmt.Sprintf(`{"type":"item_reference","id":%q},`, item.ID)
		}
		r.Whole(t, apitest.Asked("", `[{"role":"user","content":"one"},`+references+`{"role":"user","content":"two"}]`))
	},
	"WebSocket": func(t *testing.T, r *apitest.Rig, second func()) {
		k := r.Socket(t)
		k.Say(`{"type":"response.create",` + apitest.Asked(`"store":false,`, `"one"`)[1:])
		first := k.Response()
		second()
		k.Say(`{"type":"response.create",` + apitest.Asked(
			fmt.Sprintf(`"store":false,"previous_response_id":%q,`, first.Response.ID), `"two"`)[1:])
		require.Equal(t, "response.completed", k.Response().Type)
	},
}

// repeating is an input of a question, the output of its response, and another question.
func repeating(t *testing.T, first apitest.Seen, question, next string) string {
	t.Helper()
	input := []any{map[string]any{"role": "user", "content": question}}
	for _, item := range first.Output {
		switch item.Type {
		case "reasoning":
			input = append(input, map[string]any{"type": "reasoning", "id": item.ID, "summary": []any{},
				"encrypted_content": item.Encrypted})
		case "message":
			input = append(input, map[string]any{"role": "assistant", "content": item.Content[0].Text})
		}
	}
	data, err := json.Marshal(append(input, map[string]any{"role": "user", "content": next}))
	require.NoError(t, err)
	return string(data)
}

// The encrypted reasoning of an account reaches no other one, on whatever path it comes back;
// the rest of the history does.
func TestReasoningStaysWithItsAccount(t *testing.T) {
	for path, converse := range paths {
		for name, leave := range map[string]func(f *apitest.Fleet, r *apitest.Rig){
			"refused":       func(f *apitest.Fleet, _ *apitest.Rig) { f.Refuses("a", apitest.UsedUp) },
			"between turns": func(_ *apitest.Fleet, r *apitest.Rig) { r.Pool.AccountStore().Refuse("a", time.Time{}, time.Now()) },
			"same account": func(_ *apitest.Fleet, r *apitest.Rig) {
				apitest.Sharing(r)
				require.NoError(t, r.Pool.AccountStore().Pause("a", true))
			},
			"not left": func(*apitest.Fleet, *apitest.Rig) {},
		} {
			t.Run(path+"/"+name, func(t *testing.T) {
				f := apitest.NewFleet("a", "b")
				f.Let("a", apitest.Pondering("a"))
				r := f.Rig(t, apitest.Keeping(t), func(o *apitest.Options) { o.ThreadCache = 0 })
				converse(t, r, func() { leave(f, r) })
				got, want := f.Got("b"), apitest.WithoutReasoning
				if name == "same account" {
					want = apitest.WithReasoning
				}
				if name == "not left" {
					got, want = f.Got("a"), apitest.WithReasoning
				}
				require.NotEmpty(t, got)
				assert.Equal(t, want, apitest.History(got[len(got)-1]))
			})
		}
	}
}

// Reasoning from elsewhere has an account that is not known: with several accounts, none gets
// it.
func TestReasoningFromElsewhere(t *testing.T) {
	elsewhere := apitest.Asked(`"store":false,`, `[{"role":"user","content":"one"},{"type":"reasoning","id":"rs_1",`+
		`"summary":[],"encrypted_content":"gAAAA"},{"role":"assistant","content":"x"},{"role":"user","content":"two"}]`)
	for name, tc := range map[string]struct {
		names []string
		off   bool
		want  []string
	}{
		"several accounts": {[]string{"a", "b"}, false, apitest.WithoutReasoning},
		"one account":      {[]string{"a"}, false, apitest.WithReasoning},
		"no rotation":      {[]string{"a", "b"}, true, apitest.WithReasoning},
	} {
		t.Run(name, func(t *testing.T) {
			f := apitest.NewFleet(tc.names...)
			r := f.Rig(t, func(o *apitest.Options) {
				if tc.off {
					rotationOff(o)
				}
			})
			r.Whole(t, elsewhere)
			assert.Equal(t, tc.want, apitest.History(f.Got("a")[0]))
		})
	}
}
