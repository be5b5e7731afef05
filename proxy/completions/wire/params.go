package wire

import "codex-proxy/proxy/openai/jsonbody"

// completionParams is every parameter of POST /v1/completions and its rule, like chatParams.
var completionParams = jsonbody.Params{
	"model":          {jsonbody.Honoured, ""},
	"prompt":         {jsonbody.Honoured, "a string, or a list of one; token numbers are refused"},
	"stream":         {jsonbody.Honoured, ""},
	"stream_options": {jsonbody.Honoured, "include_usage"},
	"n":              {jsonbody.Honoured, "1 to 8; each choice is a turn of its own, and costs one"},
	"best_of":        {jsonbody.Honoured, "as many as n: codex reports no probabilities by which to select"},
	"echo":           {jsonbody.Honoured, "the answer begins with the prompt"},
	"stop": {jsonbody.Honoured,
		"up to 4 sequences of up to 1024 bytes, see [Stop sequences](#stop-sequences)"},

	"temperature":       {jsonbody.Ignored, "codex has no such setting"},
	"top_p":             {jsonbody.Ignored, "codex has no such setting"},
	"seed":              {jsonbody.Ignored, "codex has no such setting"},
	"presence_penalty":  {jsonbody.Ignored, "codex has no such setting"},
	"frequency_penalty": {jsonbody.Ignored, "codex has no such setting"},
	"max_tokens":        {jsonbody.Ignored, "codex has no such setting"},
	"user":              {jsonbody.Ignored, "not passed on"},

	"suffix":     {jsonbody.Refused, "the model writes what follows a prompt, not what is between two texts"},
	"logit_bias": {jsonbody.Refused, "the answer would not follow it"},
	"logprobs":   {jsonbody.Refused, "codex reports none"},
}
