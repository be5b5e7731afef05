package remotes

import (
	"encoding/json"

	"codex-proxy/codex/versions"
	"codex-proxy/remotes/codexthread"
)

type initializeResult struct {
	UserAgent string `json:"userAgent"`
	Home      string `json:"codexHome"`
}

// version is codex's own.
func (r initializeResult) version() string { return versions.OfAgent(r.UserAgent) }

type resumeParams struct {
	ThreadID     string    `json:"threadId"`
	ExcludeTurns bool      `json:"excludeTurns"`
	Page         turnsPage `json:"initialTurnsPage"`
	// Config has settings of the thread, if codex has not loaded it.
	Config map[string]json.RawMessage `json:"config,omitempty"`
}

type turnsPage struct {
	Limit     int    `json:"limit"`
	Direction string `json:"sortDirection"`
	View      string `json:"itemsView"`
}

type resumeResult struct {
	Thread codexthread.Thread `json:"thread"`
	Page   struct {
		Data []codexthread.Turn `json:"data"`
	} `json:"initialTurnsPage"`
}

type turnsParams struct {
	ThreadID string `json:"threadId"`
	turnsPage
}

type turnsResult struct {
	Data []codexthread.Turn `json:"data"`
}

type threadParams struct {
	ThreadID string `json:"threadId"`
}

type turnStartParams struct {
	ThreadID string            `json:"threadId"`
	ClientID string            `json:"clientUserMessageId,omitempty"`
	Input    []json.RawMessage `json:"input"`
}

type shellParams struct {
	ThreadID  string `json:"threadId"`
	Command   string `json:"command"`
	TimeoutMs int    `json:"timeoutMs"`
}

// unused are the notifications that codex is asked not to send to the manager: most of a turn's.
var unused = []string{
	"account/rateLimits/updated", "app/list/updated", "command/exec/outputDelta", "deprecationNotice", "fs/changed",
	"hook/completed", "hook/started", "item/agentMessage/delta", "item/autoApprovalReview/completed",
	"item/autoApprovalReview/started", "item/commandExecution/outputDelta", "item/commandExecution/terminalInteraction",
	"item/fileChange/outputDelta", "item/fileChange/patchUpdated", "item/mcpToolCall/progress", "item/plan/delta",
	"item/reasoning/summaryPartAdded", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta", "item/started",
	"mcpServer/startupStatus/updated", "model/rerouted", "model/safetyBuffering/updated", "model/verification",
	"process/exited", "process/outputDelta", "project/changed", "rawResponse/completed", "rawResponseItem/completed",
	"remoteControl/status/changed", "skills/changed", "thread/attachment/updated", "thread/compacted",
	"thread/environment/connected", "thread/environment/disconnected", "thread/goal/cleared", "thread/goal/updated",
	"thread/name/updated", "thread/prediction/updated", "thread/project/updated", "thread/queue/changed",
	"thread/readState/changed", "thread/section/changed", "thread/settings/updated", "thread/tokenUsage/updated",
	"turn/diff/updated", "turn/moderationMetadata", "turn/plan/updated", "warning", "guardianWarning", "configWarning",
}
