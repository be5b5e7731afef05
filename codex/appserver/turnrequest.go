package appserver

import (
	"crypto/sha256"
	"encoding/json"

	"codex-proxy/codex/history"
	"codex-proxy/codex/wire"
)

// TurnRequest is one stateless request: the whole history, answered once.
type TurnRequest struct {
	// Model may be empty for the worker's own.
	Model string
	// BaseInstructions replaces codex's own system prompt; nil keeps that prompt and "" sends none. Codex 0.169 puts it
	// upstream as a developer message.
	BaseInstructions *string
	// Items is the conversation so far. Codex refuses an empty one.
	Items []history.Item
	// Effort and Summary are as in turn/start; empty means the model's default.
	Effort, Summary string
	// ServiceTier is flex, priority or empty, which is the worker's own. Codex 0.169 drops others.
	ServiceTier string
	// Verbosity is low, medium, high or empty, which is the model's default.
	Verbosity string
	// OutputSchema, if any, is sent upstream as a strict JSON schema.
	OutputSchema json.RawMessage
	// Tools are the client's own: the turn ends with TurnCalledTools when the model has called some.
	Tools []Tool
	// Environment is where codex executes commands; nil: in the environment of its own configuration.
	Environment *Environment
	// Starting is called with the id of each thread that the turn is tried on, before codex gets turn/start: codex
	// works for it, and logs, before it answers that. May be nil.
	Starting func(threadID string)
	// Ended is called once, when codex has nothing more to do for the turn: the turn has ended and its thread is
	// unsubscribed or kept, the turn could not start, or the connection is closed. That may be long after StartTurn or
	// Turn.Close has returned, as those end with their context. It may be called from any goroutine, and must not
	// block. May be nil.
	Ended func()
}

// Footprint bounds the bytes that are needed to start the turn: the items and their encoded form; everything else also
// as a parameter of the thread.
func (r TurnRequest) Footprint() (n int64) {
	rest := len(r.OutputSchema)
	if r.BaseInstructions != nil {
		rest += len(*r.BaseInstructions)
	}
	for _, t := range r.Tools {
		rest += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	for _, item := range r.Items {
		n += 2 * (int64(len(item)) + wire.Overhead)
	}
	return n + 3*int64(rest)
}

// Fingerprint is a hash of everything in a request but its items.
func (r TurnRequest) Fingerprint() [sha256.Size]byte {
	thread := newThreadStart(r, nil).fingerprint
	b := append(make([]byte, 0, wire.Overhead), thread[:]...)
	for _, s := range []string{r.Effort, r.Summary, string(r.OutputSchema)} {
		b = history.AppendString(b, s, "")
	}
	return sha256.Sum256(b)
}

// Tool is a function of the client that the model may call.
type Tool struct {
	// Name is of A-Z a-z 0-9 _ -, unique, and does not begin with mcp__.
	Name, Description string
	// InputSchema is the JSON schema of the arguments, an object.
	InputSchema json.RawMessage
}

func wireTools(tools []Tool) []wire.Tool {
	var list []wire.Tool
	for _, t := range tools {
		list = append(list, wire.Tool{Type: "function", Name: t.Name, Description: t.Description,
			InputSchema: t.InputSchema})
	}
	return list
}
