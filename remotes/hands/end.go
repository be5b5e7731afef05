package hands

import (
	"context"

	"codex-proxy/runner/api/wire"
)

// Settle ends the processes of the session, if there is one. The workspace stays.
func (h *Hands) Settle(ctx context.Context) error {
	id := h.Session()
	if id == "" {
		return nil
	}
	err := lifecycle{h}.settle(ctx, id, func(wire.Command) bool { return true })
	if refusedAs(err, wire.NotFound) { // codex-runner has forgotten it
		return nil
	}
	return err
}

// End closes the session with its workspace, if there is one. keep has codex-runner keep its changes.
func (h *Hands) End(ctx context.Context, keep bool) error {
	id := h.Session()
	switch {
	case id == "":
		return nil
	case keep:
		return lifecycle{h}.retire(ctx, id)
	}
	return lifecycle{h}.close(ctx, id)
}

// Served reports whether codex has worked in the session.
func (h *Hands) Served() bool { return memory{h}.hasServed() }
