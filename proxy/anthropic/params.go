package anthropic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// rule is the treatment of a request parameter.
type rule int

const (
	honoured rule = iota // as in Anthropic's reference
	ignored              // accepted without effect; named in X-Codex-Ignored-Params
	refused              // 400, because the answer would be wrong without notice
)

// params is every known parameter of POST /v1/messages and its rule. Any other one is ignored: Anthropic asks gateways
// to take fields that they do not know, as its clients send new ones before the reference has them.
// Source: https://code.claude.com/docs/en/llm-gateway.
// docs/api.md has this table; a test keeps the two equal.
var params = map[string]struct {
	rule rule
	why  string
}{
	"model": {honoured,
		"a model of `GET /v1/models`, an alias, or a name that a pattern of `[models.aliases]` matches"},
	"messages": {honoured, "see [Messages of the Messages API](#messages-of-the-messages-api)"},
	"system": {honoured,
		"text, or text blocks; a block that begins with `x-anthropic-billing-header:`, as Claude Code sends it, is left out"},
	"stream": {honoured, ""},
	"stop_sequences": {honoured,
		"up to 64 sequences of up to 1024 bytes; the answer ends before the first one"},
	"thinking": {honoured,
		"enabled and adaptive: the answer has thinking blocks; budget_tokens is an effort: low below 4096, medium below " +
			"16384, else high; disabled: the effort none, if the model has it, also beside another effort; display"},
	"output_config": {honoured,
		"effort, or the next lower one that the model has; format as a JSON schema, which is enforced as far as the " +
			"strict subset goes"},
	"output_format": {honoured, "the earlier name of output_config.format"},
	"tools": {honoured,
		"the client's own tools, and bash, text_editor and memory, which the client runs; see " +
			"[Tools of the Messages API](#tools-of-the-messages-api)"},
	"tool_choice": {honoured,
		"auto and none; any and tool are asked for in words; with disable_parallel_tool_use the answer has one call"},
	"service_tier": {honoured, "auto and standard_only are what the worker is set to"},
	"speed":        {honoured, "fast is the tier priority, for models that have it"},
	"safeguards": {honoured,
		"a verdict on each call of a tool, in safeguard_results, as Claude Code's auto mode needs it: " +
			"always not_flagged, as [nothing is checked here](security.md#what-the-proxy-does-not-check); a safeguard other " +
			"than dangerous_tool_use is unsupported"},

	"max_tokens": {ignored,
		"required, but codex has no such setting; a whole number. With 0, which warms Anthropic's " +
			"cache, nothing runs: the answer is empty, with the estimated tokens of the input"},
	"temperature": {ignored, "codex has no such setting; a number"},
	"top_p":       {ignored, "codex has no such setting; a number"},
	"top_k":       {ignored, "codex has no such setting; a number"},
	"metadata": {ignored,
		"not passed on; a user_id with a session identifies the conversation for `rotation`"},
	"cache_control":         {ignored, "codex sets its own, here and in blocks and tools"},
	"context_hint":          {ignored, "nothing is edited: the model gets the whole conversation"},
	"context_management":    {ignored, "nothing is edited: the model gets the whole conversation"},
	"data_flow":             {ignored, "not passed on"},
	"diagnostics":           {ignored, "codex reports none"},
	"inference_geo":         {ignored, "codex has no such setting"},
	"billing_policy":        {ignored, "codex has no such setting"},
	"fallbacks":             {ignored, "the model that is asked for answers"},
	"fallback_credit_token": {ignored, "the model that is asked for answers"},
	"user_profile_id":       {ignored, "not passed on"},
	"betas":                 {ignored, "no beta is needed for what works"},
	"anthropic_beta":        {ignored, "no beta is needed for what works"},
	"anthropic_version":     {ignored, "there is one version"},

	"container":   {refused, "nothing runs on the server"},
	"mcp_servers": {refused, "tools of servers are not served"},
	"compaction":  {refused, "codex does not summarise a conversation here"},
	"thread": {refused,
		"no conversation is kept: the error has the code thread_unsupported_request, after which the tool runner of " +
			"Anthropic's libraries sends all messages by itself"},
}

// Limits on the unknown parameters that are named in the answer.
const (
	maxUnknown     = 32
	maxUnknownName = 64 // bytes
)

// checkParams refuses the parameters that are refused, and returns the ignored ones. A null, false or empty value
// counts as unset. Unknown parameters are ignored, and named if a header can hold their names, up to a number.
func checkParams(fields map[string]jsonbody.ValuePrefix) (ignoredParams []string, err error) {
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p, known := params[name]
		switch {
		case !fields[name].IsSet():
		case !known:
			if unknown++; unknown <= maxUnknown && plainName(name) {
				ignoredParams = append(ignoredParams, name)
			}
		case name == "thread":
			return nil, openai.Invalid(codeThread, name,
				"thread: no conversation is kept; send all messages, without thread")
		case p.rule == refused:
			return nil, unsupported(name, fmt.Sprintf("%s is not supported: %s; leave it out", name, p.why))
		case p.rule == ignored:
			ignoredParams = append(ignoredParams, name)
		}
	}
	return ignoredParams, nil
}

// plainName reports whether a name is one word of letters, digits and _.-, and short.
func plainName(name string) bool {
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-' && r != '.'
	}
	return name != "" && len(name) <= maxUnknownName && strings.IndexFunc(name, odd) < 0
}

func unsupported(param, message string) *openai.Error {
	return openai.Invalid("unsupported_parameter", param, message)
}

func invalid(at, message string) *openai.Error {
	return openai.Invalid("invalid_value", at, at+": "+message)
}

// required is the error of a field that is missing, in Anthropic's words.
func required(at string) *openai.Error {
	return openai.Invalid("field_required", at, at+": Field required")
}
