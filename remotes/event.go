package remotes

import "time"

// Event is a change of a remote for the journal, metrics and [notify].
type Event struct {
	Kind   EventKind
	At     time.Time
	Thread string
	Turn   string
	// User has attached or detached; Viewer means that the user only watches.
	User   string
	Viewer bool
	// Status is how codex ended a turn: completed, failed or interrupted.
	Status string
	// Account serves in place of From.
	Account, From string
	// Detail is for people: the error of a turn, the last words of the model, or the messages that codex has lost.
	Detail string
	// Alone means that no client was attached that could act.
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
	Waiting      EventKind = "waiting" // a turn waits for a user, and nobody is there
	ToolAnswered EventKind = "tool_answered"
	Switched     EventKind = "switched"  // another account serves
	Exhausted    EventKind = "exhausted" // a turn waits for quota
	Refilled     EventKind = "refilled"  // and goes on
)

func (m *keeping) emitKind(e Event, kind EventKind) {
	e.Kind = kind
	m.emit(e)
}

// emit logs an event and passes it on.
func (m *keeping) emit(e Event) {
	e.At = time.Now()
	m.update(func(s *state) { e.Alone = s.nobody() })
	m.log(e)
	m.opts.Notify(e)
}

// log writes an event into the journal, which gets no words of the model or of people.
func (m *keeping) log(e Event) {
	var attrs []any
	for _, a := range [][2]string{{"remote", m.opts.Name}, {"user", e.User}, {"thread_id", e.Thread},
		{"turn_id", e.Turn}} {
		if a[1] != "" {
			attrs = append(attrs, a[0], a[1])
		}
	}
	l := m.opts.Logger.With(attrs...)
	switch e.Kind {
	case Attached:
		l.Info("attached to a remote", "viewer", e.Viewer)
	case Detached:
		l.Info("detached from a remote", "viewer", e.Viewer)
	case Cut:
		l.Warn("the end of codex has cut a turn")
	case Continued:
		l.Info("a cut turn goes on")
	case Asked:
		l.Warn("a cut turn waits for the word of a person", "remedy", "codex-proxy remotes continue "+m.opts.Name)
	case Left:
		l.Warn("a cut turn stays interrupted", "setting", "continue")
	case LimitReached:
		l.Error("a cut turn is given up", "limit", m.opts.Limit)
	case Redelivered:
		l.Warn("codex has lost a message, which was sent again", "detail", e.Detail)
	case TurnEnded:
		l.Info("a turn of a remote has ended", "status", e.Status, "alone", e.Alone)
	case Waiting:
		l.Warn("a turn waits for a person, and nobody is there", "remedy", m.opts.Attach)
	case ToolAnswered:
		l.Info("the main process has answered a tool of a client that is gone", "tool", e.Detail)
	case Switched:
		l.Info("another account serves a remote", "account", e.Account, "from", e.From, "reason", e.Detail)
	case Exhausted:
		l.Warn("a turn waits for quota", "reason", e.Detail)
	case Refilled:
		l.Info("a turn that waited for quota goes on")
	case Lost: // is logged with the error
	}
}
