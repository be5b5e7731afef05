package appserver

import (
	"context"

	"codex-proxy/codex/versions"
	"codex-proxy/codex/wire"
)

// InitializeResponse describes codex.
type InitializeResponse struct {
	UserAgent string `json:"userAgent"`
}

// unused are the notifications that codex is asked not to send. Most messages of a turn are among them.
var unused = []string{
	"thread/started",
	"thread/closed",
	"thread/status/changed",
	"thread/settings/updated",
	"thread/name/updated",
	"thread/compacted",
	"item/started",
	"item/plan/delta",
	"item/reasoning/textDelta",
	"item/reasoning/summaryPartAdded",
	"item/commandExecution/outputDelta",
	"item/commandExecution/terminalInteraction",
	"item/fileChange/outputDelta",
	"item/fileChange/patchUpdated",
	"item/mcpToolCall/progress",
	"turn/diff/updated",
	"turn/plan/updated",
	"turn/moderationMetadata",
	"hook/started",
	"hook/completed",
	"serverRequest/resolved",
	"skills/changed",
	"app/list/updated",
	"remoteControl/status/changed",
	"mcpServer/startupStatus/updated",
}

// Initialize performs the handshake: initialize, then the notification initialized. It must be first on a connection,
// once.
func (c *Conn) Initialize(ctx context.Context) (InitializeResponse, error) {
	var r InitializeResponse
	params := wire.Initialize{
		ClientInfo:   wire.ClientInfo{Name: c.opts.ClientName, Version: c.opts.ClientVersion},
		Capabilities: wire.Capabilities{ExperimentalAPI: true, OptOutNotificationMethods: unused},
	}
	if err := c.Call(ctx, "initialize", params, &r); err != nil {
		return r, err
	}
	c.update(func(s *state) { s.unmarked = versions.Older(versions.OfAgent(r.UserAgent), versions.MarksResponses) })
	return r, c.Notify(ctx, "initialized", nil)
}
