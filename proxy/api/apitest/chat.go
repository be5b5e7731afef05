package apitest

import (
	"context"

	"codex-proxy/codex/appservertest"
)

// Answering ends the turn with that usage.
func Answering(u appservertest.Usage, chunks ...string) appservertest.Handler {
	return func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text(chunks...)
		turn.EndResponse(u)
		return nil
	}
}

// SomeUsage is the usage of turns whose tokens matter little.
var SomeUsage = appservertest.Usage{Input: 20, Cached: 5, Output: 7, Reasoning: 3}
