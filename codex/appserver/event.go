package appserver

import (
	"encoding/json"

	"codex-proxy/codex/jsonscan"
	"codex-proxy/codex/turnerror"
)

// Event is something that happened in a turn: TextDelta, ReasoningDelta,
// ResponseItem, UsageUpdated, Retrying or TurnCompleted.
type Event interface{ event() }

// TextDelta is more text of an answer. A turn may have several messages, each
// with its own ItemID, one after another.
type TextDelta struct{ ItemID, Text string }

// ReasoningDelta is more of the reasoning summary; Part counts its paragraphs from 0.
type ReasoningDelta struct {
	ItemID string
	Part   int
	Text   string
}

// ResponseItem is a finished output item as the model sent it, in the form of
// the Responses API: message, reasoning with its encrypted content, call. Type is
// the item's own.
type ResponseItem struct {
	Type string
	Item json.RawMessage
}

// Decode stores the fields of the item in v, which may have fewer.
func (i ResponseItem) Decode(v any) error { return jsonscan.Unmarshal(i.Item, v) }

// UsageUpdated carries the tokens of the turn so far.
type UsageUpdated struct{ Usage Usage }

// Retrying means that the upstream failed and codex repeats the request. No text of the restarted response has been
// delivered.
type Retrying struct{ Err *turnerror.Error }

// TurnCompleted is the last event. Err is set when Status is TurnFailed.
type TurnCompleted struct {
	Status TurnStatus
	Err    *turnerror.Error
}

// TurnStatus is how a turn ended.
type TurnStatus string

// The ways a turn ends. TurnCalledTools is no status of codex: the model has called tools of the client, each call has
// come as a ResponseItem, and codex would wait for their outputs. The outputs are part of another request.
const (
	TurnCompletedOK TurnStatus = "completed"
	TurnInterrupted TurnStatus = "interrupted"
	TurnFailed      TurnStatus = "failed"
	TurnCalledTools TurnStatus = "calledTools"
)

func (TextDelta) event()      {}
func (ReasoningDelta) event() {}
func (ResponseItem) event()   {}
func (UsageUpdated) event()   {}
func (Retrying) event()       {}
func (TurnCompleted) event()  {}
