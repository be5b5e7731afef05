package remotes

import "time"

// Event is what the journal, metrics and [notify] want to have.
type Event struct {
	Kind   EventKind
	At     time.Time
	Thread string
	Turn   string
	// Detail is for people: the user who attached, the error of a turn, the last words.
	Detail string
	// Alone means that nobody was attached who could act.
	Alone bool
}

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	Attached     EventKind = "attached"
	Detached     EventKind = "detached"
	Cut          EventKind = "cut"           // a turn was cut by the end of codex
	Continued    EventKind = "continued"     // and goes on
	Asked        EventKind = "asked"         // its user decides whether it goes on
	Left         EventKind = "left"          // the settings end it there
	LimitReached EventKind = "limit_reached" // it went on too often
	Redelivered  EventKind = "redelivered"   // a message of the user that codex had lost was sent again
	Lost         EventKind = "lost"          // codex has no such thread any more
	TurnEnded    EventKind = "turn_ended"
	Waiting      EventKind = "waiting" // a turn waits for a user, and nobody is attached
	ToolAnswered EventKind = "tool_answered"
)
