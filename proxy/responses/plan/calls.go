package plan

import (
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
)

// callCheck finds outputs without a call and calls without an output: codex would drop such
// an output silently, and invent one for such a call.
type callCheck struct {
	open   map[string]bool // calls without an output
	orphan string          // an output without a call
}

func (c *callCheck) add(i wire.Item) {
	if c.open == nil {
		c.open = map[string]bool{}
	}
	switch i.Type {
	case "function_call", "custom_tool_call", "tool_search_call":
		c.open[i.CallID] = true
	case "function_call_output", "custom_tool_call_output", "tool_search_output":
		if !c.open[i.CallID] && c.orphan == "" {
			c.orphan = i.CallID
		}
		delete(c.open, i.CallID)
	}
}

func (c *callCheck) verdict() error {
	if c.orphan != "" {
		return openai.Invalid("tool_call_id_unknown", "input",
			fmt.Sprintf("no tool call found for the output with call_id %q", openai.Bounded(c.orphan)))
	}
	for id := range c.open {
		return openai.Invalid("tool_result_missing", "input",
			fmt.Sprintf("no tool output found for the call with call_id %q", openai.Bounded(id)))
	}
	return nil
}
