package appserver

import (
	"encoding/json"

	"codex-proxy/codex/history"
)

// Tool is a function of the client that the model may call.
type Tool struct {
	// Name is of A-Z a-z 0-9 _ -, unique, and does not begin with mcp__.
	Name, Description string
	// InputSchema is the JSON schema of the arguments, an object.
	InputSchema json.RawMessage
}

type dynamicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func (t dynamicTool) append(b []byte) []byte {
	b = history.AppendString(append(b, `{"type":`...), t.Type, `,"name":`)
	b = history.AppendString(history.AppendString(b, t.Name, `,"description":`), t.Description, `,"inputSchema":`)
	return append(append(b, t.InputSchema...), '}')
}

func dynamicTools(tools []Tool) []dynamicTool {
	var list []dynamicTool
	for _, t := range tools {
		list = append(list, dynamicTool{"function", t.Name, t.Description, t.InputSchema})
	}
	return list
}
