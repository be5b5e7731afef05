package api

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/accounts"
)

// pondering answers with encrypted reasoning and its name.
func pondering(name string) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("thoughts of " + name)
		turn.Text("I am ", name)
		turn.EndResponse(someUsage)
		return nil
	}
}

// history is a turn of a fleet: the kinds of its items in a row.
func history(r appservertest.Request) (kinds []string) {
	for _, data := range r.Items {
		var item struct{ Type, Role string }
		if json.Unmarshal(data, &item) != nil {
			item.Type = "broken"
		}
		kinds = append(kinds, item.Type+item.Role)
	}
	return kinds
}

var (
	withoutReasoning = []string{"messageuser", "messageassistant", "messageuser"}
	withReasoning    = []string{"messageuser", "reasoning", "messageassistant", "messageuser"}
)

// paths are the ways in which a client continues a response: it repeats the output, or refers
// to it. second runs between the two turns.
var paths = map[string]func(t *testing.T, r *rig, second func()){
	"repeated": func(t *testing.T, r *rig, second func()) {
		const stateless = `"store":false,"include":["reasoning.encrypted_content"],`
		first := r.whole(t, asked(stateless, `"one"`))
		second()
		r.whole(t, asked(stateless, repeating(t, first, "one", "two")))
	},
	"stored": func(t *testing.T, r *rig, second func()) {
		first := r.whole(t, asked("", `"one"`))
		second()
		r.whole(t, asked(fmt.Sprintf(`"previous_response_id":%q,`, first.ID), `"two"`))
	},
	"item reference": func(t *testing.T, r *rig, second func()) {
		first := r.whole(t, asked("", `"one"`))
		second()
		references := ""
		for _, item := range first.Output {
			references += fmt.Sprintf(`{"type":"item_reference","id":%q},`, item.ID)
		}
		r.whole(t, asked("", `[{"role":"user","content":"one"},`+references+`{"role":"user","content":"two"}]`))
	},
	"WebSocket": func(t *testing.T, r *rig, second func()) {
		k := r.socket(t)
		k.say(`{"type":"response.create",` + asked(`"store":false,`, `"one"`)[1:])
		first := k.response()
		second()
		k.say(`{"type":"response.create",` + asked(
			fmt.Sprintf(`"store":false,"previous_response_id":%q,`, first.Response.ID), `"two"`)[1:])
		require.Equal(t, "response.completed", k.response().Type)
	},
}

// repeating is an input of a question, the output of its response, and another question.
func repeating(t *testing.T, first seen, question, next string) string {
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
		for name, leave := range map[string]func(f *fleet, r *rig){
			"refused":       func(f *fleet, _ *rig) { f.refuses("a", usedUp) },
			"between turns": func(_ *fleet, r *rig) { r.pool.Book().Refuse("a", time.Time{}, time.Now()) },
			"same account": func(_ *fleet, r *rig) {
				sharing(r)
				require.NoError(t, r.pool.Book().Pause("a", true))
			},
			"not left": func(*fleet, *rig) {},
		} {
			t.Run(path+"/"+name, func(t *testing.T) {
				f := newFleet("a", "b")
				f.let("a", pondering("a"))
				r := f.rig(t, keeping(t), func(o *options) { o.ThreadCache = 0 })
				converse(t, r, func() { leave(f, r) })
				got, want := f.got("b"), withoutReasoning
				if name == "same account" {
					want = withReasoning
				}
				if name == "not left" {
					got, want = f.got("a"), withReasoning
				}
				require.NotEmpty(t, got)
				assert.Equal(t, want, history(got[len(got)-1]))
			})
		}
	}
}

// sharing makes both workers one account.
func sharing(r *rig) {
	for _, name := range []string{"a", "b"} {
		r.pool.Book().Read(name, "one", accounts.Quota{At: time.Now(), Source: accounts.Reading})
	}
}

// Reasoning from elsewhere has an account that is not known: with several accounts, none gets
// it.
func TestReasoningFromElsewhere(t *testing.T) {
	elsewhere := asked(`"store":false,`, `[{"role":"user","content":"one"},{"type":"reasoning","id":"rs_1",`+
		`"summary":[],"encrypted_content":"gAAAA"},{"role":"assistant","content":"x"},{"role":"user","content":"two"}]`)
	for name, tc := range map[string]struct {
		names []string
		off   bool
		want  []string
	}{
		"several accounts": {[]string{"a", "b"}, false, withoutReasoning},
		"one account":      {[]string{"a"}, false, withReasoning},
		"no rotation":      {[]string{"a", "b"}, true, withReasoning},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(tc.names...)
			r := f.rig(t, func(o *options) {
				if tc.off {
					rotationOff(o)
				}
			})
			r.whole(t, elsewhere)
			assert.Equal(t, tc.want, history(f.got("a")[0]))
		})
	}
}
