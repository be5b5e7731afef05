package openai

// params is a table of parameters.
type params = map[string]struct {
	rule rule
	why  string
}

// responseParams is every parameter of POST /v1/responses and its rule, like chatParams.
var responseParams = params{
	"model": {honoured, ""},
	"input": {honoured,
		"text, or items: messages, calls and their outputs, reasoning, references to stored items"},
	"instructions": {honoured, ""},
	"stream":       {honoured, ""},
	"tools":        {honoured, "functions, custom tools and namespaces of them, see above"},
	"tool_choice": {honoured,
		"none, auto and allowed_tools; required and a named tool are asked for in words"},
	"parallel_tool_calls": {honoured,
		"false asks the model for one call, and of several in an answer only the first is passed on"},
	"text":                 {honoured, "format as for chat completions; verbosity as the model endpoint takes it"},
	"service_tier":         {honoured, "as for chat completions"},
	"reasoning":            {honoured, "effort and summary; context and mode are ignored"},
	"metadata":             {honoured, "up to 16 pairs of up to 64 and 512 characters"},
	"include":              {honoured, "reasoning.encrypted_content; of hosted tools there is nothing to include"},
	"store":                {honoured, "on unless it is false"},
	"background":           {honoured, "needs store; not on a WebSocket, see [below](#background)"},
	"previous_response_id": {honoured, "not beside conversation"},
	"conversation": {honoured,
		"its items precede the input, and the response adds its input and output when it completes"},
	"truncation": {honoured, "disabled; auto is ignored, as codex cuts nothing off: input that is too long is refused"},
	"generate":   {honoured, "on a WebSocket; false only keeps the input for the next response"},

	"temperature":            {ignored, "codex has no such setting"},
	"top_p":                  {ignored, "codex has no such setting"},
	"max_output_tokens":      {ignored, "codex has no such setting"},
	"max_tool_calls":         {ignored, "there are no hosted tools to call"},
	"stream_options":         {ignored, "nothing is obfuscated"},
	"user":                   {ignored, "not passed on"},
	"safety_identifier":      {ignored, "not passed on"},
	"prompt_cache_key":       {ignored, "codex sets its own; it identifies the conversation for `rotation`"},
	"prompt_cache_retention": {ignored, "codex sets its own"},
	"prompt_cache_options": {ignored,
		"codex sets its own; with prewarm no turn runs, and the output is empty; the response is kept as any other"},
	"client_metadata":    {ignored, "not passed on"},
	"image":              {ignored, "codex has no such setting"},
	"background_options": {ignored, "a background response runs as soon as a worker has a place for it"},
	"context_management": {ignored,
		"nothing is compacted by itself: send a [compaction_trigger](#compaction) where the conversation becomes long"},

	"prompt":          {refused, "prompt templates are not kept; use instructions and input"},
	"moderation":      {refused, "codex has no such setting"},
	"access_programs": {refused, "codex has no such setting"},
	"top_logprobs":    {refused, "codex reports none"},
	"stream_id":       {refused, "one response at a time on a connection; open another one"},
}
