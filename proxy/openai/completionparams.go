package openai

// completionParams is every parameter of POST /v1/completions and its rule, like chatParams.
var completionParams = params{
	"model":          {honoured, ""},
	"prompt":         {honoured, "a string, or a list of one; token numbers are refused"},
	"stream":         {honoured, ""},
	"stream_options": {honoured, "include_usage"},
	"n":              {honoured, "1 to 8; each choice is a turn of its own, and costs one"},
	"best_of":        {honoured, "as many as n: codex reports no probabilities by which to select"},
	"echo":           {honoured, "the answer begins with the prompt"},
	"stop":           {honoured, "up to 4 sequences of up to 1024 bytes, see [Stop sequences](#stop-sequences)"},

	"temperature":       {ignored, "codex has no such setting"},
	"top_p":             {ignored, "codex has no such setting"},
	"seed":              {ignored, "codex has no such setting"},
	"presence_penalty":  {ignored, "codex has no such setting"},
	"frequency_penalty": {ignored, "codex has no such setting"},
	"max_tokens":        {ignored, "codex has no such setting"},
	"user":              {ignored, "not passed on"},

	"suffix":     {refused, "the model writes what follows a prompt, not what is between two texts"},
	"logit_bias": {refused, "the answer would not follow it"},
	"logprobs":   {refused, "codex reports none"},
}
