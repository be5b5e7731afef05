package parameter

// Common is the part of a request that every endpoint has.
type Common struct {
	Model   *string // may be replaced, for example for an alias
	Effort  *string // reasoning effort, may be replaced; empty: not set
	Summary *string // of the reasoning, may be replaced; nil: the answer has no place for it
	Choices int     // turns that the request needs
	Stream  bool
	Ignored []string // parameters accepted without effect, sorted
	Tier    string   // the service tier; empty: the worker's own
	// NoReasoning asks for the effort none, if the model has it.
	NoReasoning bool
	// SoftEffort is the effort that a client wants which does not know the efforts of the model; Effort is empty then.
	// The effort of an alias and NoReasoning count before it; of the model's efforts, the next lower one is taken.
	SoftEffort string

	TierField        string // the name of Tier in the request
	EffortField      string // the name of Effort in the request
	NoReasoningField string // the name of NoReasoning in the request
	HistoryField     string // the name of the conversation in the request
}
