package openai

// rule says what becomes of a request parameter.
type rule int

const (
	honoured rule = iota // it does what the OpenAI reference says
	ignored              // accepted without effect; named in X-Codex-Ignored-Params
	refused              // 400, because going on would be silently wrong
)

// chatParams is every parameter of POST /v1/chat/completions and what becomes
// of it. A parameter that is not here is refused as unknown. docs/api.md shows
// this table; a test keeps the two equal.
var chatParams = map[string]struct {
	rule rule
	why  string
}{
	"model":            {honoured, ""},
	"messages":         {honoured, "text of the roles system, developer, user and assistant"},
	"stream":           {honoured, ""},
	"stream_options":   {honoured, "include_usage"},
	"reasoning_effort": {honoured, "as the model lists them"},
	"n":                {honoured, "1 only"},
	"response_format":  {honoured, "text only"},
	"modalities":       {honoured, "text only"},

	"temperature":            {ignored, "codex has no such setting"},
	"top_p":                  {ignored, "codex has no such setting"},
	"seed":                   {ignored, "codex has no such setting"},
	"presence_penalty":       {ignored, "codex has no such setting"},
	"frequency_penalty":      {ignored, "codex has no such setting"},
	"max_tokens":             {ignored, "codex has no such setting"},
	"max_completion_tokens":  {ignored, "codex has no such setting"},
	"verbosity":              {ignored, "not passed on"},
	"store":                  {ignored, "nothing is stored"},
	"metadata":               {ignored, "nothing is stored"},
	"user":                   {ignored, "not passed on"},
	"safety_identifier":      {ignored, "not passed on"},
	"prompt_cache_key":       {ignored, "codex sets its own"},
	"prompt_cache_retention": {ignored, "codex sets its own"},
	"service_tier":           {ignored, "not passed on"},
	"parallel_tool_calls":    {ignored, "without tools there is nothing to call"},
	"prediction":             {ignored, "codex has no such setting"},

	"stop":               {refused, "the answer would not stop there"},
	"logit_bias":         {refused, "the answer would not follow it"},
	"logprobs":           {refused, "codex reports none"},
	"top_logprobs":       {refused, "codex reports none"},
	"tools":              {refused, "client tools are not served"},
	"tool_choice":        {refused, "client tools are not served"},
	"functions":          {refused, "client tools are not served"},
	"function_call":      {refused, "client tools are not served"},
	"audio":              {refused, "codex produces text"},
	"web_search_options": {refused, "hosted tools are not served"},
}
