package handoff

import (
	"bytes"
	"encoding/json"
	"slices"
)

// news is the only kind that processes of version 0 know after the hand-off, apart from
// Drain and Hasten. It carries the body of Drains, Keys, Load or Turns.
const news Kind = "news"

var newsKinds = []Kind{Drains, Keys, Load, Turns}

// wireKind returns the kind under which a process of that version knows kind.
func wireKind(kind Kind, version int) Kind {
	if version == 0 && slices.Contains(newsKinds, kind) {
		return news
	}
	return kind
}

// newsOfSuccessor returns the kind of news from a new process of version 0: a key file is
// a string, a load has a member "load", and all else are drains.
func newsOfSuccessor(body json.RawMessage) Kind {
	if bytes.HasPrefix(body, []byte(`"`)) {
		return Keys
	}
	var members struct {
		Load json.RawMessage `json:"load"`
	}
	if json.Unmarshal(body, &members) == nil && members.Load != nil {
		return Load
	}
	return Drains
}

// newsOfPredecessor returns the kind of news from an old process of version 0.
func newsOfPredecessor(json.RawMessage) Kind { return Turns }
