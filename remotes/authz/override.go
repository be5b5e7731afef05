package authz

import (
	"bytes"
	"slices"
	"strings"

	"codex-proxy/codex/jsonscan"
)

// configured are the requests with a "config" that sets keys of codex's configuration for a thread.
var configured = []string{"thread/start", "thread/resume", "thread/fork"}

// settable are the keys that a client may set so, with all below them. The TUI sets features, skills, tools and
// web_search for the hidden thread that makes a title, codex-acp trusts the project that its user has opened. All
// others are refused, above all those by which codex would send the account's token to an address of the client's
// (model_providers, openai_base_url, chatgpt_base_url), or start programs outside of its sandbox (mcp_servers, hooks,
// notify).
var settable = []string{
	"approval_policy", "approvals_reviewer", "cloud", "compact_prompt", "default_permissions", "developer_instructions",
	"features", "hide_agent_reasoning", "include_apps_instructions", "include_collaboration_mode_instructions",
	"include_environment_context", "include_permissions_instructions", "instructions", "model",
	"model_auto_compact_token_limit", "model_auto_compact_token_limit_scope", "model_context_window",
	"model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "personality",
	"plan_mode_reasoning_effort", "project_doc_max_bytes", "projects", "review_model", "sandbox_mode", "service_tier",
	"show_raw_agent_reasoning", "skills", "tool_output_token_limit", "tools", "web_search",
}

// override is the first key of codex's configuration that the request sets and may not set; empty without such a key.
func override(m message) string {
	if !slices.Contains(configured, m.method) {
		return ""
	}
	params := jsonscan.Open(m.params)
	for name, value, ok := params.Next(); ok; name, value, ok = params.Next() {
		switch {
		case bytes.IndexByte(name, '\\') >= 0:
			return string(name) // no client writes the name of a member with an escape
		case string(name) == "config":
			if key := forbidden(value); key != "" {
				return key
			}
		}
	}
	return ""
}

// forbidden is the first key of an object of settings that is not settable.
func forbidden(config []byte) string {
	if string(config) == "null" {
		return ""
	}
	keys := jsonscan.Open(config)
	for name, value, ok := keys.Next(); ok; name, value, ok = keys.Next() {
		root, _, _ := strings.Cut(string(name), ".")
		if !slices.Contains(settable, root) && !nothing(value) {
			return string(name)
		}
	}
	return ""
}

// nothing is the value of a key that is set to no entries: the TUI clears mcp_servers so.
func nothing(value []byte) bool {
	return string(value) == "null" || string(bytes.Join(bytes.Fields(value), nil)) == "{}"
}
