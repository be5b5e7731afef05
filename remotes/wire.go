package remotes

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The states of a turn, as codex names them.
const (
	turnInProgress  = "inProgress"
	turnInterrupted = "interrupted"
	turnCompleted   = "completed"
)

// turn is a turn as codex has it.
type turn struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Items  []item     `json:"items"`
	Error  *turnError `json:"error"`
}

// turnError is why a turn has failed.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"` // a word, or an object
}

// ofModel are codex's sentences for a plan without the model, and for a used-up limit that is of one model.
var ofModel = regexp.MustCompile(`(?i)^To use Codex with your ChatGPT plan\b|\busage limit for .+\bSwitch to another model\b`)

// lacksQuota means that the account had nothing left. A refusal for the model alone is no matter of quota: the
// same account serves, and would refuse the model again.
func (e *turnError) lacksQuota() bool {
	return e != nil && string(e.Info) == `"usageLimitExceeded"` && !ofModel.MatchString(e.Message)
}

// item is a thread's item, as far as the keeper reads it.
type item struct {
	Type     string          `json:"type"`
	ClientID string          `json:"clientId"`
	Content  json.RawMessage `json:"content"`
	Text     string          `json:"text"`
}

// userMessage is an item of that type.
type userMessage struct {
	ClientID string
	Content  json.RawMessage
}

func (t turn) messages() (list []userMessage) {
	for _, i := range t.Items {
		if i.Type == "userMessage" {
			list = append(list, userMessage{i.ClientID, i.Content})
		}
	}
	return list
}

// threadInfo is a thread as codex describes it.
type threadInfo struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Preview   string       `json:"preview"`
	Updated   int64        `json:"updatedAt"` // seconds since 1970
	Path      string       `json:"path"`
	Forked    string       `json:"forkedFromId"`
	Ephemeral bool         `json:"ephemeral"`
	Parent    string       `json:"parentThreadId"`
	Status    threadStatus `json:"status"`
}

// hidden means that the thread belongs to none of the users: codex makes one for a title, and others for agents, whose
// work is lost with the turn that started them.
func (t threadInfo) hidden() bool { return t.Ephemeral || t.Parent != "" }

type threadStatus struct {
	Type  string   `json:"type"`
	Flags []string `json:"activeFlags"`
}

func (s threadStatus) active() bool { return s.Type == "active" }

// waiting means that the turn waits for a user: an approval, or an answer to a question.
func (s threadStatus) waiting() bool { return s.active() && len(s.Flags) > 0 }

type initializeParams struct {
	ClientInfo   clientInfo   `json:"clientInfo"`
	Capabilities capabilities `json:"capabilities"`
}

type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type capabilities struct {
	ExperimentalAPI           bool     `json:"experimentalApi"`
	OptOutNotificationMethods []string `json:"optOutNotificationMethods"`
}

type initializeResult struct {
	UserAgent string `json:"userAgent"`
	Home      string `json:"codexHome"`
}

// version is codex's own: the user agent begins with the name of the client and a slash.
func (r initializeResult) version() string {
	_, rest, _ := strings.Cut(r.UserAgent, "/")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

type resumeParams struct {
	ThreadID     string    `json:"threadId"`
	ExcludeTurns bool      `json:"excludeTurns"`
	Page         turnsPage `json:"initialTurnsPage"`
}

type turnsPage struct {
	Limit     int    `json:"limit"`
	Direction string `json:"sortDirection"`
	View      string `json:"itemsView"`
}

type resumeResult struct {
	Thread threadInfo `json:"thread"`
	Page   struct {
		Data []turn `json:"data"`
	} `json:"initialTurnsPage"`
}

type turnsParams struct {
	ThreadID string `json:"threadId"`
	turnsPage
}

type turnsResult struct {
	Data []turn `json:"data"`
}

type injectParams struct {
	ThreadID string     `json:"threadId"`
	Items    []itemType `json:"items"`
}

type itemType struct {
	Type string `json:"type"`
}

type threadParams struct {
	ThreadID string `json:"threadId"`
}

type turnStartParams struct {
	ThreadID string            `json:"threadId"`
	ClientID string            `json:"clientUserMessageId,omitempty"`
	Input    []json.RawMessage `json:"input"`
}

type turnStartResult struct {
	Turn turn `json:"turn"`
}

type shellParams struct {
	ThreadID  string `json:"threadId"`
	Command   string `json:"command"`
	TimeoutMs int    `json:"timeoutMs"`
}

// unused are the notifications that codex is asked not to send to the keeper: most of a turn's.
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
