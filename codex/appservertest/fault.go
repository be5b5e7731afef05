package appservertest

import (
	"context"
	"encoding/json"
	"sync/atomic"
)

// Silent never answers the request.
func Silent(context.Context, *Peer, json.RawMessage) bool { return true }

// Held answers as usual once gate is closed, and delays all later messages of the connection, like codex while it
// decodes images.
func Held(gate <-chan struct{}) Fault {
	return func(ctx context.Context, _ *Peer, _ json.RawMessage) bool {
		select {
		case <-gate:
			return false
		case <-ctx.Done():
			return true
		}
	}
}

// HalfFrame answers with half a frame and disconnects.
func HalfFrame(_ context.Context, p *Peer, _ json.RawMessage) bool {
	p.HalfFrame()
	return true
}

// Disconnect disconnects instead of answering.
func Disconnect(_ context.Context, p *Peer, _ json.RawMessage) bool {
	p.Disconnect()
	return true
}

// Overloaded answers as codex does above some hundred requests in flight.
func Overloaded(_ context.Context, p *Peer, id json.RawMessage) bool {
	p.Refuse(id, -32001, "Server overloaded; retry later.")
	return true
}

// Refused answers with an error of that code.
func Refused(code int, text string) Fault {
	return func(_ context.Context, p *Peer, id json.RawMessage) bool {
		p.Refuse(id, code, text)
		return true
	}
}

// Frame answers with these bytes, well formed or not.
func Frame(b []byte) Fault {
	return func(_ context.Context, p *Peer, _ json.RawMessage) bool {
		p.Send(b)
		return true
	}
}

// Times applies fault to the first n requests only.
func Times(n int, fault Fault) Fault {
	var used atomic.Int64
	return func(ctx context.Context, p *Peer, id json.RawMessage) bool {
		return used.Add(1) <= int64(n) && fault(ctx, p, id)
	}
}
