package environment

import "context"

// Has returns why the host has no such tool, or nil.
func (h Host) Has(tool string) error {
	_, err := h.find(tool)
	return err
}

// Missing returns, for each kind of set-up that needs tools of the host in a usual project, why it cannot be made here,
// or nil.
func (h Host) Missing(ctx context.Context) map[string]error {
	_, pip := h.Tool(ctx, "pip")
	node := h.Has("node")
	if node == nil {
		node = h.Has("npm")
	}
	return map[string]error{"Python": pip, "Node": node, "conda": h.Has("micromamba")}
}
