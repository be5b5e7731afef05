package wire

import (
	"encoding/json"

	"codex-proxy/codex/history"
)

// Tool is a tool of the client, in thread/start.
type Tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func (t Tool) append(b []byte) []byte {
	b = history.AppendString(append(b, `{"type":`...), t.Type, `,"name":`)
	b = history.AppendString(history.AppendString(b, t.Name, `,"description":`), t.Description, `,"inputSchema":`)
	return append(append(b, t.InputSchema...), '}')
}

// ToolAnswer is the result of a client tool.
type ToolAnswer struct {
	ContentItems []ToolContent `json:"contentItems"`
	Success      bool          `json:"success"`
}

// ToolContent is a part of a ToolAnswer.
type ToolContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
