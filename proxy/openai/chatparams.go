package openai

// rule is the treatment of a request parameter.
type rule int

const (
	honoured rule = iota // as in the OpenAI reference
	ignored              // accepted without effect; named in X-Codex-Ignored-Params
	refused              // 400, because the answer would be wrong without notice
)

// chatParams is every parameter of POST /v1/chat/completions and its rule. Any other parameter is refused as unknown.
// docs/api.md has this table; a test keeps the two equal.
var chatParams = map[string]struct {
	rule rule
	why  string
}{
	"model":            {honoured, ""},
	"messages":         {honoured, "all roles, see [Messages](#messages)"},
	"stream":           {honoured, ""},
	"stream_options":   {honoured, "include_usage"},
	"n":                {honoured, "1 to 8; each choice is a turn of its own, and costs one"},
	"modalities":       {honoured, "text only"},
	"reasoning_effort": {honoured, "as the model lists them"},
	"reasoning": {honoured,
		"effort, and summary (auto, concise, detailed, none), which sends the reasoning summary as reasoning_content; of " +
			"OpenRouter, enabled and exclude, see [Reasoning](#reasoning)"},
	"response_format": {honoured,
		"json_schema is enforced by the model endpoint, as far as the strict subset goes; json_object is asked for in " +
			"words, see [Structured output](#structured-output)"},
	"tools": {honoured, "functions and custom tools; strict is not enforced, see [Tools](#tools)"},
	"tool_choice": {honoured,
		"none, auto and allowed_tools; required and a named tool are asked for in words"},
	"parallel_tool_calls": {honoured,
		"false asks the model for one call, and of several in an answer only the first is passed on"},
	"functions":     {honoured, "the legacy form of tools; an answer carries one function_call"},
	"function_call": {honoured, "the legacy form of tool_choice"},
	"service_tier": {honoured,
		"flex, and priority (also fast) for models that have it; auto and default are what the worker is set to"},
	"verbosity": {honoured, "as the model endpoint takes it"},
	"stop":      {honoured, "up to 4 sequences of up to 1024 bytes, see [Stop sequences](#stop-sequences)"},

	"temperature":            {ignored, "codex has no such setting"},
	"top_p":                  {ignored, "codex has no such setting"},
	"seed":                   {ignored, "codex has no such setting"},
	"presence_penalty":       {ignored, "codex has no such setting"},
	"frequency_penalty":      {ignored, "codex has no such setting"},
	"max_tokens":             {ignored, "codex has no such setting"},
	"max_completion_tokens":  {ignored, "codex has no such setting"},
	"store":                  {ignored, "nothing is stored"},
	"metadata":               {ignored, "nothing is stored"},
	"user":                   {ignored, "not passed on"},
	"safety_identifier":      {ignored, "not passed on"},
	"prompt_cache_key":       {ignored, "codex sets its own; it identifies the conversation for `rotation`"},
	"prompt_cache_retention": {ignored, "codex sets its own"},
	"prompt_cache_options":   {ignored, "codex sets its own"},
	"prediction":             {ignored, "codex has no such setting"},

	"logit_bias":         {refused, "the answer would not follow it"},
	"logprobs":           {refused, "codex reports none"},
	"top_logprobs":       {refused, "codex reports none"},
	"audio":              {refused, "codex produces text"},
	"web_search_options": {refused, "hosted tools are not served"},
	"moderation":         {refused, "codex has no such setting"},
}
