package openai

// Finish reasons.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishContentFilter = "content_filter"
	FinishToolCalls     = "tool_calls"
	FinishFunctionCall  = "function_call" // the legacy form of FinishToolCalls
)
