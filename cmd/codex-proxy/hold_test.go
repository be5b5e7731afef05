package main

import (
	"context"
	"encoding/json"

	"codex-proxy/proxy/appserver/appservertest"
)

// hold tells of each request of that method, and answers when it may.
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
