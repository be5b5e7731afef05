package turnjournal

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"codex-proxy/codex/jsonscan"
)

// Record is the turn of one thread.
type Record struct {
	// Turn is codex's id; empty: the turn was asked for, and codex has not reported it yet.
	Turn  string    `json:"turn,omitempty"`
	Since time.Time `json:"since"`
	// After is the turn before it, if the manager saw one end.
	After string `json:"after,omitempty"`
	// Kind is the operation that runs in place of a turn of the model; a cut ends it; empty: a turn of the model.
	Kind string `json:"kind,omitempty"`
	// Interrupted is the turn that its user has interrupted; AnyTurn if the client named none and none was known.
	Interrupted string `json:"interrupted,omitempty"`
	// Inputs are messages of the user that have gone to codex, and which its files may not have yet.
	Inputs []Input `json:"inputs,omitempty"`
	// Continued counts how often the turn went on after a cut.
	Continued int `json:"continued,omitempty"`
	// Mended is the cut turn that the manager has ended in codex's files, to continue it.
	Mended string `json:"mended,omitempty"`
	// Asked means that the turn was cut, and goes on only if a user wants it.
	Asked bool `json:"asked,omitempty"`
	// Quota means that the turn has ended for want of quota, and goes on when there is some.
	Quota bool `json:"quota,omitempty"`
	// Config has the settings by which a client has loaded the thread, for a turn that goes on in another process.
	Config map[string]json.RawMessage `json:"config,omitempty"`
}

// AnyTurn stands for the turn that starts next.
const AnyTurn = "*"

// Input is one message of the user, in the words of turn/start.
type Input struct {
	// Settings are the other parameters of its turn/start, such as the model; none for turn/steer.
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
	ClientID string                     `json:"client_id,omitempty"`
	Content  json.RawMessage            `json:"content"`
	At       time.Time                  `json:"at"`
	// With are the ids of other messages that this one was merged from.
	With []string `json:"with,omitempty"`
	// Request names the request that brought it, for codex's answer; empty: the manager's own, or one before a restart.
	Request string `json:"-"`
	// Seen means that codex has reported the message as part of a turn; its files may still lack it.
	Seen bool `json:"seen,omitempty"`
}

// Clone is a copy that shares nothing that changes.
func (r *Record) Clone() Record {
	c := *r
	c.Inputs = slices.Clone(r.Inputs)
	return c
}

// Same reports whether two messages are one: by the client's id, or by the content if the client gave none.
func (i Input) Same(clientID string, content []byte) bool {
	if i.ClientID != "" || clientID != "" {
		return i.ClientID == clientID
	}
	return bytes.Equal(plain(i.Content), plain(content))
}

// plain is the text of a message, and whatever else it has as it is.
func plain(content []byte) []byte {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		URL  string `json:"url"`
		Path string `json:"path"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return content
	}
	b, _ := json.Marshal(parts)
	return b
}

// The bounds of the messages that a record keeps.
const (
	MaxInput  = 1 << 20
	MaxInputs = 32
	maxDepth  = 128 // of values within each other; codex refuses more
)

func (i Input) size() (n int) {
	for name, v := range i.Settings {
		n += len(name) + len(v)
	}
	return n + len(i.Content)
}

// depth is how many arrays and objects lie within each other, at the deepest.
func (i Input) depth() (deepest int) {
	for _, v := range append(slices.Collect(maps.Values(i.Settings)), i.Content) {
		deepest = max(deepest, jsonscan.Depth(v))
	}
	return deepest
}

// Fits reports whether a record may keep the message.
func (i Input) Fits() bool { return i.size() <= MaxInput && i.depth() <= maxDepth }

// Of reports whether the request that brought the message may still be refused.
func (i Input) Of(request string) bool { return i.Request == request && !i.Seen }

// InputsAfter are the messages that have come after a time.
func (r *Record) InputsAfter(at time.Time) []Input {
	return slices.DeleteFunc(slices.Clone(r.Inputs), func(i Input) bool { return !i.At.After(at) })
}

// Changed is when the record changed last.
func (r *Record) Changed() time.Time {
	at := r.Since
	for _, i := range r.Inputs {
		if i.At.After(at) {
			at = i.At
		}
	}
	return at
}
