package workers_test

import (
	"context"
	"encoding/json"

	"codex-proxy/codex/appservertest"
)

// faults lets hold run before each answer to method.
func faults(method string, hold func(context.Context)) map[string]appservertest.Fault {
	fault := func(ctx context.Context, _ *appservertest.Peer, _ json.RawMessage) bool {
		hold(ctx)
		return false
	}
	return map[string]appservertest.Fault{method: fault}
}
