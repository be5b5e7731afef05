package authz

import "slices"

// access is which clients may send a request.
type access uint8

const (
	refused access = iota // no client: the text of its rule has the reason
	owners
	all // viewers, too: it changes nothing that another client sees
)

// Reasons of a refusal, as clients read them.
const (
	whyLogin         = "the login of a remote belongs to its unit, and no client changes it"
	whyConfiguration = "the settings of a remote are in its file under /etc/codex-proxy/remotes, and no client changes them"
	whyRemoteControl = "a remote is reached over its socket alone"
	whyPlugins       = "a client installs nothing in a remote; " + whyConfiguration
	whyWrites        = "a client writes no files past the sandbox of a remote: use command/exec, or ask codex"
	whyProcess       = "a process of its own would run outside of codex's sandbox: use command/exec"
	whyElsewhere     = "a remote runs its commands in its own unit alone"
	whyMoney         = "it would spend the account's credits, or send a mail in its owner's name: use the account's web page"
	whyFeedback      = "a remote sends no logs away; the journal has them"
	whyMachine       = "it belongs to the machine of a person, and a remote is none"
	whyMicrophone    = "a remote has no voice sessions"
	whyTest          = "it is for tests of codex"
)

// rule is the decision on one method.
type rule struct {
	access access
	why    string
}

// rules decides every method that codex's schema has; a method without a rule is refused. TestMethods compares them
// with the schema of the installed codex.
var rules = func() map[string]rule {
	byMethod := map[string]rule{}
	add := func(access access, why string, methods ...string) {
		for _, m := range methods {
			byMethod[m] = rule{access, why}
		}
	}
	add(all, "",
		"initialize", "server/diagnostics",
		"thread/resume", // of a viewer: without its settings, see viewersResume
		"thread/unsubscribe",
		"thread/list", "thread/loaded/list", "thread/read", "thread/turns/list", "thread/items/list",
		"thread/items/read", "thread/timeline/list", "thread/goal/get",
		"thread/search", "thread/search/stream", "thread/searchOccurrences", // a client ends its own searches:
		"thread/search/cancel", "thread/search/stream/cancel",
		"thread/queue/list", "thread/attachment/list", "thread/attachmentOwner/list", "thread/backgroundTerminals/list",
		"threadSection/list", "project/list", "project/read",
		"skills/list", "hooks/list", "plugin/installed", "app/installed", "mcpServerStatus/list",
		"model/list", "modelProvider/list", "modelProvider/capabilities/read", "collaborationMode/list",
		"experimentalFeature/list", "permissionProfile/list", "environment/info", "environment/status",
		"config/read", "configRequirements/read",
		"account/read", "account/rateLimits/read", "account/usage/read", "account/workspaceMessages/read",
		"account/bedrock/checkGovCloudRequirements", "account/gatewayOAuth/read", "account/securitySetup/read",
		"thread/realtime/list", "thread/realtime/listVoices", "windowsSandbox/readiness",
	)
	add(owners, "",
		"thread/start", "thread/fork", "thread/archive", "thread/unarchive", "thread/delete", "thread/name/set",
		"thread/sample", "thread/sample/cancel", "thread/prediction/request", "thread/guardianReview",
		"thread/increment_elicitation", "thread/decrement_elicitation",
		"thread/goal/set", "thread/goal/clear",
		"thread/queue/add", "thread/queue/update", "thread/queue/delete", "thread/queue/reorder", "thread/queue/start",
		"thread/metadata/update", "thread/attachment/add", "thread/attachment/remove", "thread/section/move",
		"thread/settings/update", "thread/memoryMode/set", "thread/memory/read", "memory/status", "memory/reset",
		"thread/compact/start", "thread/shellCommand", "thread/approveGuardianDeniedAction",
		"thread/backgroundTerminals/clean", "thread/backgroundTerminals/terminate", "thread/revert", "thread/rollback",
		"thread/readState/update", "thread/inject_items", "thread/prepareApprovedPlan", "rollout/compress",
		"threadSection/create", "threadSection/update", "threadSection/delete",
		"project/create", "project/import", "project/update", "project/move", "project/delete",
		"turn/start", "turn/steer", "turn/interrupt", "turn/settings/update", "review/start",
		"command/exec", "command/exec/write", "command/exec/terminate", "command/exec/resize",
		"fs/readFile", "fs/getMetadata", "fs/readDirectory", "fs/watch", "fs/unwatch",
		"fuzzyFileSearch", "fuzzyFileSearch/sessionStart", "fuzzyFileSearch/sessionUpdate",
		"fuzzyFileSearch/sessionStop",
		"plugin/list", "plugin/search", "plugin/read", "plugin/skill/read", "app/read", "app/list",
		"mcpServer/resource/read", "mcpServer/event/stream/start", "mcpServer/event/stream/stop",
		"mcpServer/tool/call",
	)
	add(refused, whyLogin,
		"account/login/start", "account/login/cancel", "account/logout", "account/gatewayOAuth/login",
		"account/gatewayOAuth/cancel", "account/bedrock/discover", "account/bedrock/setup", "account/gcp/setup",
		"accountSession/list", "accountSession/switch", "mcpServer/oauth/login")
	add(refused, whyConfiguration,
		"config/value/write", "config/batchWrite", "config/mcpServer/reload", "skills/config/write",
		"skills/extraRoots/set", "modelProvider/config/write", "modelProvider/default/set",
		"experimentalFeature/enablement/set", "externalAgentConfig/detect", "externalAgentConfig/import",
		"externalAgentConfig/import/recordHistory", "externalAgentConfig/import/readHistories")
	add(refused, whyPlugins,
		"plugin/install", "plugin/uninstall", "plugin/reconcile", "plugin/share/save", "plugin/share/updateTargets",
		"plugin/share/list", "plugin/share/checkout", "plugin/share/delete",
		"marketplace/add", "marketplace/remove", "marketplace/upgrade")
	add(refused, whyRemoteControl,
		"remoteControl/enable", "remoteControl/disable", "remoteControl/status/read", "remoteControl/pairing/start",
		"remoteControl/pairing/status", "remoteControl/client/list", "remoteControl/client/revoke")
	add(refused, whyWrites, "fs/writeFile", "fs/createDirectory", "fs/remove", "fs/copy")
	add(refused, whyProcess, "process/spawn", "process/writeStdin", "process/kill", "process/resizePty")
	add(refused, whyElsewhere, "environment/add")
	add(refused, whyMoney, "account/rateLimitResetCredit/consume", "account/sendAddCreditsNudgeEmail")
	add(refused, whyFeedback, "feedback/upload", "feedback/save")
	add(refused, whyMachine, "userVerification/status", "userVerification/enroll", "userVerification/delete",
		"userVerification/verify", "userVerification/cancel", "windowsSandbox/setupStart")
	add(refused, whyMicrophone, "thread/realtime/start", "thread/realtime/appendAudio", "thread/realtime/appendText",
		"thread/realtime/appendSpeech", "thread/realtime/stop")
	add(refused, whyTest, "mock/experimentalMethod")
	return byMethod
}()

// notifications are those that codex knows of clients.
var notifications = []string{"initialized"}

// withheld are requests of codex that no client gets: the manager alone answers them.
var withheld = []string{"account/chatgptAuthTokens/refresh", "attestation/generate"}

// asked are requests of codex that owners get and answer.
var asked = []string{
	"item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval",
	"item/tool/requestUserInput", "mcpServer/elicitation/request", "item/tool/call", "currentTime/read",
	"applyPatchApproval", "execCommandApproval",
}

// Method is the decision on a request of clients, for documents.
type Method struct {
	Name            string
	Owners, Viewers bool
	Refused         string // why no client may send it; empty if owners may
}

// Methods are the decisions on all requests that are known, by name. All others are refused.
func Methods() (list []Method) {
	for name, r := range rules {
		list = append(list, Method{Name: name, Owners: r.access >= owners, Viewers: r.access == all, Refused: r.why})
	}
	slices.SortFunc(list, func(a, b Method) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}
