package wire

import "codex-proxy/proxy/openai/jsonbody"

// chatParams is every parameter of POST /v1/chat/completions and its rule. Any other parameter is refused as unknown.
// docs/api.md has this table; a test keeps the two equal.
var chatParams = jsonbody.Params{
	"model":            {jsonbody.Honoured, ""},
	"messages":         {jsonbody.Honoured, "all roles, see [Messages](#messages)"},
	"stream":           {jsonbody.Honoured, ""},
	"stream_options":   {jsonbody.Honoured, "include_usage"},
	"n":                {jsonbody.Honoured, "1 to 8; each choice is a turn of its own, and costs one"},
	"modalities":       {jsonbody.Honoured, "text only"},
	"reasoning_effort": {jsonbody.Honoured, "as the model lists them"},
	"reasoning": {jsonbody.Honoured,
		"effort, and summary (auto, concise, detailed, none), which sends the reasoning summary as reasoning_content; of " +
			"OpenRouter, enabled and exclude, see [Reasoning](#reasoning)"},
	"response_format": {jsonbody.Honoured,
		"json_schema is enforced by the model endpoint, as far as the strict subset goes; json_object is asked for in " +
			"words, see [Structured output](#structured-output)"},
	"tools": {jsonbody.Honoured, "functions and custom tools; strict is not enforced, see [Tools](#tools)"},
	"tool_choice": {jsonbody.Honoured,
		"none, auto and allowed_tools; required and a named tool are asked for in words"},
	"parallel_tool_calls": {jsonbody.Honoured,
		"false asks the model for one call, and of several in an answer only the first is passed on"},
	"functions":     {jsonbody.Honoured, "the legacy form of tools; an answer carries one function_call"},
	"function_call": {jsonbody.Honoured, "the legacy form of tool_choice"},
	"service_tier": {jsonbody.Honoured,
		"flex, and priority (also fast) for models that have it; auto and default are what the worker is set to"},
	"verbosity": {jsonbody.Honoured, "as the model endpoint takes it"},
	"stop":      {jsonbody.Honoured, "up to 4 sequences of up to 1024 bytes, see [Stop sequences](#stop-sequences)"},

	"temperature":            {jsonbody.Ignored, "codex has no such setting"},
	"top_p":                  {jsonbody.Ignored, "codex has no such setting"},
	"seed":                   {jsonbody.Ignored, "codex has no such setting"},
	"presence_penalty":       {jsonbody.Ignored, "codex has no such setting"},
	"frequency_penalty":      {jsonbody.Ignored, "codex has no such setting"},
	"max_tokens":             {jsonbody.Ignored, "codex has no such setting"},
	"max_completion_tokens":  {jsonbody.Ignored, "codex has no such setting"},
	"store":                  {jsonbody.Ignored, "nothing is stored"},
	"metadata":               {jsonbody.Ignored, "nothing is stored"},
	"user":                   {jsonbody.Ignored, "not passed on"},
	"safety_identifier":      {jsonbody.Ignored, "not passed on"},
	"prompt_cache_key":       {jsonbody.Ignored, "codex sets its own; it identifies the conversation for `rotation`"},
	"prompt_cache_retention": {jsonbody.Ignored, "codex sets its own"},
	"prompt_cache_options":   {jsonbody.Ignored, "codex sets its own"},
	"prediction":             {jsonbody.Ignored, "codex has no such setting"},

	"logit_bias":         {jsonbody.Refused, "the answer would not follow it"},
	"logprobs":           {jsonbody.Refused, "codex reports none"},
	"top_logprobs":       {jsonbody.Refused, "codex reports none"},
	"audio":              {jsonbody.Refused, "codex produces text"},
	"web_search_options": {jsonbody.Refused, "hosted tools are not served"},
	"moderation":         {jsonbody.Refused, "codex has no such setting"},
}
