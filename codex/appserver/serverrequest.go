package appserver

import "codex-proxy/codex/rpc"

// decision answers approval requests: the commands and patches of a model never run without a user's consent.
type decision struct {
	Decision string `json:"decision"`
}

// elicitationAnswer answers an MCP server's question to the user.
type elicitationAnswer struct {
	Action  string `json:"action"`
	Content any    `json:"content"`
}

// toolAnswer is the result of a client tool.
type toolAnswer struct {
	ContentItems []toolContent `json:"contentItems"`
	Success      bool          `json:"success"`
}

type toolContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// permissionsAnswer grants the permissions that it names: none.
type permissionsAnswer struct {
	Permissions struct{} `json:"permissions"`
}

// answerTo is the result for a request of codex. All other requests get codeMethodNotFound.
func answerTo(method string) (result any, known bool) {
	switch method {
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		return decision{Decision: "decline"}, true
	case "item/permissions/requestApproval":
		return permissionsAnswer{}, true
	case "mcpServer/elicitation/request":
		return elicitationAnswer{Action: "decline"}, true
	case "item/tool/call":
		text := toolContent{Type: "inputText", Text: "this tool cannot be run here"}
		return toolAnswer{ContentItems: []toolContent{text}}, true
	}
	return nil, false
}

// answer replies to a request of codex, without blocking.
func (c *Conn) answer(m rpc.Message) error {
	if m.Method == "item/tool/call" && c.leaveOpen(&m) {
		return nil
	}
	result, known := answerTo(m.Method)
	c.opts.Logger.Debug("answered a request of codex app-server", "method", m.Method, "refused", !known)
	if !known {
		return c.Refuse(m.ID, &RPCError{Code: codeMethodNotFound, Message: "method not found: " + m.Method})
	}
	return c.Reply(m.ID, result)
}
