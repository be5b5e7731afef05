package appserver

import (
	"testing"

	"codex-proxy/codex/rpc"
	"codex-proxy/test/codexschema"
)

// typed holds every message type of this package by the schema file that describes it.
var typed = map[string]any{
	"v1/InitializeResponse":                    InitializeResponse{},
	"v2/ModelListParams":                       modelListParams{},
	"v2/ModelListResponse":                     modelListResponse{},
	"v2/CommandExecParams":                     commandExecParams{},
	"v2/CommandExecResponse":                   CommandResult{},
	"v2/AgentMessageDeltaNotification":         agentMessageDelta{},
	"v2/ReasoningSummaryTextDeltaNotification": summaryTextDeltaParams{},
	"v2/ItemCompletedNotification":             completedItem{},
	"v2/ThreadTokenUsageUpdatedNotification":   tokenUsageParams{},
	"v2/ErrorNotification":                     errorParams{},
	"v2/TurnCompletedNotification":             turnCompletedParams{},
	"JSONRPCErrorError":                        rpc.Error{},
	"JSONRPCRequest":                           jsonRPCRequest{},
	"CommandExecutionRequestApprovalResponse":  decision{},
	"FileChangeRequestApprovalResponse":        decision{},
	"PermissionsRequestApprovalResponse":       permissionsAnswer{},
	"McpServerElicitationRequestResponse":      elicitationAnswer{},
}

// agentMessageDelta has the members that package delivery reads.
type agentMessageDelta struct {
	ItemID string `json:"itemId"`
	Delta  string `json:"delta"`
}

// completedItem has the members that package delivery and itemCompletedParams read.
type completedItem struct {
	Item struct {
		Type    string   `json:"type"`
		ID      string   `json:"id"`
		Text    string   `json:"text"`
		Summary []string `json:"summary"`
	} `json:"item"`
}

// jsonRPCRequest has the members that package rpc sends.
type jsonRPCRequest struct {
	ID     int64      `json:"id"`
	Method string     `json:"method"`
	Params any        `json:"params"`
	Trace  *rpc.Trace `json:"trace"`
}

// methodsIn holds every method in use by the schema file that lists it.
// rawResponse/completed and rawResponseItem/completed are sent on demand
// (experimentalRawEvents) and listed nowhere.
var methodsIn = map[string][]string{
	"ClientRequest": {
		"initialize", "model/list", "thread/start", "thread/inject_items", "thread/unsubscribe", "turn/start",
		"turn/interrupt", "command/exec", "environment/add",
	},
	"ClientNotification": {"initialized"},
	"ServerRequest": {
		"item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval",
		"mcpServer/elicitation/request", "item/tool/call",
	},
	"ServerNotification": append([]string{
		"turn/started", "turn/completed", "item/agentMessage/delta", "item/reasoning/summaryTextDelta",
		"item/completed",
		"thread/tokenUsage/updated", "error",
	}, unused...),
}

func TestSchema(t *testing.T) { codexschema.Compare(t, typed, methodsIn) }
