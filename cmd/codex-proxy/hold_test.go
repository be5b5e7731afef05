package main

import (
	"context"
	"encoding/json"

	"codex-proxy/codex/appservertest"
)

// hold reports each request of that method, and answers after a release.
func hold(method string, asked chan<- struct{}, answer <-chan struct{}) map[string]appservertest.Fault {
	return map[string]appservertest.Fault{method: func(ctx context.Context, _ *appservertest.Peer, _ json.RawMessage) bool {
		asked <- struct{}{}
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return false
	}}
}
