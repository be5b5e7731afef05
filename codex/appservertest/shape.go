package appservertest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
)

// version is the version of codex that the fake imitates.
const version = "0.169.0"

const passthroughName = "internal_chat_message_metadata_passthrough"

// newID makes an id in codex's form, a UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (th *thread) shape() map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"id": th.id, "sessionId": th.id, "forkedFromId": nil, "attachedToThreadId": nil, "parentThreadId": nil,
		"environments": []any{}, "extra": nil, "preview": "", "ephemeral": true, "section": nil,
		"sectionEnteredAt": nil,
		"projectId":        nil, "historyMode": "paginated", "modelProvider": "demo", "model": th.request.Model,
		"reasoningEffort": nil, "createdAt": now, "updatedAt": now, "recencyAt": now,
		"status": map[string]any{"type": "idle"}, "path": nil, "cwd": "/", "cliVersion": version,
		"originator": th.originator, "source": "vscode", "canAcceptDirectInput": true, "threadSource": nil,
		"agentNickname": nil, "agentRole": nil, "gitInfo": nil, "name": nil, "daybreakEnabled": nil, "turns": []any{},
	}
}

func (th *thread) startShape() map[string]any {
	return map[string]any{
		"thread": th.shape(), "model": th.request.Model, "modelProvider": "demo", "serviceTier": nil,
		"disabledPluginIds": []any{}, "cwd": "/", "runtimeWorkspaceRoots": []any{}, "instructionSources": []any{},
		"approvalPolicy": "never", "approvalsReviewer": "user", "sandbox": sandboxShape(),
		"activePermissionProfile": nil, "reasoningEffort": nil, "multiAgentMode": "explicitRequestOnly",
	}
}

func (th *thread) settingsShape(r Request) map[string]any {
	return map[string]any{"threadId": th.id, "threadSettings": map[string]any{
		"disabledPluginIds": []any{}, "cwd": "/", "environments": []any{}, "approvalPolicy": "never",
		"approvalsReviewer": "user", "sandboxPolicy": sandboxShape(), "activePermissionProfile": nil,
		"model": r.Model, "modelProvider": "demo", "serviceTier": nil, "effort": orNull(r.Effort), "summary": orNull(
			r.Summary),
		"collaborationMode": map[string]any{"mode": "default", "settings": map[string]any{
			"model": r.Model, "reasoning_effort": orNull(r.Effort), "developer_instructions": nil,
		}},
		"multiAgentMode": "explicitRequestOnly", "personality": nil,
	}}
}

func sandboxShape() map[string]any {
	return map[string]any{"type": "readOnly", "networkAccess": false}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (t *Turn) shape(status string, failure map[string]any) map[string]any {
	e := any(nil)
	if failure != nil {
		e = failure
	}
	return map[string]any{
		"id": t.ID, "rootTurnId": t.ID, "items": []any{}, "itemsView": "notLoaded", "status": status, "error": e,
		"startedAt": nil, "completedAt": nil, "durationMs": nil,
	}
}

func (m *Message) shape(completed any) map[string]any {
	return map[string]any{
		"type": "agentMessage", "id": m.id, "text": m.text.String(), "moderation": nil, "phase": nil,
		"memoryCitation": nil,
		"delivery":       nil, "questions": nil, "startedAtMs": m.at, "completedAtMs": completed,
	}
}

func reasoningShape(id string, summary []any, started int64, completed any) map[string]any {
	return map[string]any{
		"type": "reasoning", "id": id, "summary": summary, "content": []any{}, "startedAtMs": started,
		"completedAtMs": completed,
	}
}

func errorShape(message string, info any) map[string]any {
	return map[string]any{"message": message, "codexErrorInfo": info, "additionalDetails": nil, "misalignment": nil}
}

func (u Usage) shape() map[string]any {
	return map[string]any{
		"totalTokens": u.Input + u.Output, "inputTokens": u.Input, "cachedInputTokens": u.Cached,
		"cacheWriteInputTokens": 0, "outputTokens": u.Output, "reasoningOutputTokens": u.Reasoning,
	}
}

func (u Usage) upstreamShape() map[string]any {
	return map[string]any{
		"input_tokens": u.Input, "input_tokens_details": map[string]any{"cached_tokens": u.Cached},
		"output_tokens": u.Output, "output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
		"total_tokens": u.Input + u.Output,
	}
}

func rateLimitsShape() map[string]any {
	return map[string]any{
		"limitId": "codex", "limitName": nil, "normalModelSlug": nil, "primary": nil, "secondary": nil, "credits": nil,
		"individualLimit": nil, "spendControlReached": nil, "planType": nil, "rateLimitReachedType": nil,
	}
}

// abortedShape is the item that codex adds to the history of an interrupted turn.
func abortedShape(turnID string) map[string]any {
	return map[string]any{
		"type": "message", "role": "user", "id": "msg_" + newID(),
		"content": []any{map[string]any{"type": "input_text",
			"text": "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>"}},
		passthroughName: map[string]any{
			"turn_id": turnID, "create_time": float64(time.Now().UnixMicro()) / 1e6, "content_item_kinds": []any{
				"generic.turn_aborted"},
			"content_item_metadata": []any{
				map[string]any{"provenance": map[string]any{"hook": false, "type": "harness"}}},
		},
	}
}

// echo is an injected item as codex repeats it: with an id and its metadata.
func echo(item json.RawMessage) any {
	var fields map[string]any
	if json.Unmarshal(item, &fields) != nil {
		return item
	}
	fields["id"] = "msg_" + newID()
	fields[passthroughName] = map[string]any{
		"turn_id": "auto-compact-0", "create_time": float64(time.Now().UnixMicro()) / 1e6, "content_item_kinds": []any{
			"unknown"},
	}
	return fields
}
