package appservertest

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// badTools is the error with which codex refuses tools; empty if it accepts them.
func badTools(tools []Tool) string {
	seen := map[string]bool{}
	for _, t := range tools {
		switch {
		case len(t.Name) > 128, !toolName.MatchString(t.Name):
			return "dynamic tool name must match ^[a-zA-Z0-9_-]+$ to match Responses API: " + t.Name
		case t.Name == "mcp" || strings.HasPrefix(t.Name, "mcp__"):
			return "dynamic tool name is reserved: " + t.Name
		case seen[t.Name]:
			return "duplicate dynamic tool name: " + t.Name
		case len(t.InputSchema) == 0 || !strings.ContainsAny(string(t.InputSchema[:1]), "{tf"):
			return "dynamic tool input schema is not supported for " + t.Name
		}
		seen[t.Name] = true
	}
	return ""
}

// call is a call of a tool, with the client's answer.
type call struct {
	id     string
	output chan string // capacity 1
}

// Call makes the model call a tool, under an id of its own, with arguments as the model writes them. Codex sends the
// call to the client at once if the tool is one of the client's, and answers it itself if not.
func (t *Turn) Call(ctx context.Context, name, arguments string) (id string) {
	t.ended = false
	id = t.newItemID("call")
	t.rawItem(map[string]any{
		"type": "function_call", "id": t.newItemID("fc"), "name": name, "arguments": arguments, "call_id": id,
		passthroughName: map[string]any{"turn_id": t.ID},
	})
	c := call{id, make(chan string, 1)}
	t.calls = append(t.calls, c)
	var parsed any
	switch {
	case !slices.ContainsFunc(t.Request.DynamicTools, func(tool Tool) bool { return tool.Name == name }):
		c.output <- "unsupported call: " + name
	case json.Unmarshal([]byte(arguments), &parsed) != nil:
		c.output <- "failed to parse function arguments"
	default:
		t.asking.Go(func() { c.output <- t.ask(ctx, id, name, parsed) })
	}
	return id
}

func (t *Turn) ask(ctx context.Context, id, name string, arguments any) string {
	reply, err := t.Ask(ctx, "item/tool/call",
		map[string]any{"callId": id, "namespace": nil, "tool": name, "arguments": arguments})
	if err != nil {
		return "aborted"
	}
	var answer struct {
		Result struct{ ContentItems []struct{ Text string } }
	}
	_ = json.Unmarshal(reply, &answer)
	text := ""
	for _, item := range answer.Result.ContentItems {
		text += item.Text
	}
	return text
}

// Outputs waits for the answers to all calls, as codex does before it sends its next request to the model, and reports
// them.
func (t *Turn) Outputs(ctx context.Context) error {
	for _, c := range t.calls {
		select {
		case output := <-c.output:
			if err := ctx.Err(); err != nil { // the end of the turn, no answer
				return err
			}
			t.rawItem(map[string]any{"type": "function_call_output", "id": t.newItemID("fco"), "call_id": c.id,
				"output": output})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.calls = nil
	t.tokens(t.unreported, t.unreported)
	t.rateLimits()
	return nil
}
