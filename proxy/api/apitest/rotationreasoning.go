package apitest

import (
	"context"
	"encoding/json"
	"time"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/accounts"
)

// Pondering answers with encrypted reasoning and its name.
func Pondering(name string) appservertest.Handler {
	return func(_ context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("thoughts of " + name)
		turn.Text("I am ", name)
		turn.EndResponse(SomeUsage)
		return nil
	}
}

// History is a turn of a fleet: the kinds of its items in a row.
func History(r appservertest.Request) (kinds []string) {
	for _, data := range r.Items {
		var item struct{ Type, Role string }
		if json.Unmarshal(data, &item) != nil {
			item.Type = "broken"
		}
		kinds = append(kinds, item.Type+item.Role)
	}
	return kinds
}

// WithoutReasoning and WithReasoning are the items of a second turn.
var (
	WithoutReasoning = []string{"messageuser", "messageassistant", "messageuser"}
	WithReasoning    = []string{"messageuser", "reasoning", "messageassistant", "messageuser"}
)

// Sharing makes both workers one account.
func Sharing(r *Rig) {
	for _, name := range []string{"a", "b"} {
		r.Pool.AccountStore().Read(name, "one", accounts.Quota{At: time.Now(), Source: accounts.Reading})
	}
}
