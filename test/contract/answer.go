package contract

// Answer is a model's answer by either API, streamed or whole.
type Answer struct {
	ID        string
	Model     string
	Text      string
	Reasoning string
	Refusal   string
	Calls     []Call
	Finish    string // chat: finish_reason; responses: the status; messages: stop_reason
	Tokens    int    // in all; 0 if no usage was reported
	Failure   *Failure
	Alert     *Failure // responses: of the event error before response.failed
	Done      bool     // chat: the stream ended in [DONE]; messages: in message_stop
}

// Call is a call of a client's function.
type Call struct{ ID, Name, Arguments string }

// Failure is an error of the API. Those of the Messages API have a type and a message alone.
type Failure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}
