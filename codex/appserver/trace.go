package appserver

import (
	"context"

	"codex-proxy/codex/rpc"
)

// Trace is the trace that a turn is part of.
type Trace = rpc.Trace

// WithTrace makes the requests that are sent under the context part of a trace.
func WithTrace(ctx context.Context, t Trace) context.Context { return rpc.WithTrace(ctx, t) }
