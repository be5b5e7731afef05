package remotes

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"codex-proxy/proxy/appserver/jsonscan"
)

// Watched reports whether Passing wants the requests of a method.
func Watched(method string) bool {
	_, kind := kinds[method]
	return kind || method == "turn/start" || method == "turn/steer" || method == "turn/interrupt"
}

// kinds are the methods that start something in a thread which looks like a turn, and does not go on after a cut.
var kinds = map[string]string{
	"thread/shellCommand":  "shell",
	"thread/compact/start": "compaction",
	"review/start":         "review",
}

// Passing records a request of a client before it goes to codex, whose reading of it is exact: a name in other letters is
// another one. It never refuses a request: one that does not parse is codex's to refuse.
func (k *Keeper) Passing(method string, params json.RawMessage) {
	var p struct {
		ThreadID string          `json:"threadId"`
		TurnID   string          `json:"turnId"`
		ClientID string          `json:"clientUserMessageId"`
		Input    json.RawMessage `json:"input"`
	}
	if jsonscan.Unmarshal(params, &p) != nil || p.ThreadID == "" || len(p.ThreadID) > maxID || len(p.TurnID) > maxID {
		return
	}
	now := time.Now()
	k.record(func(s *state) {
		if s.thread(p.ThreadID).hidden || s.full(p.ThreadID) {
			return
		}
		switch method {
		case "turn/start", "turn/steer":
			i := input{ClientID: p.ClientID, Content: slices.Clone(p.Input), At: now}
			if method == "turn/start" {
				i.Settings = settings(params)
			}
			s.asked(p.ThreadID, i, now)
		case "turn/interrupt":
			s.interrupt(p.ThreadID, p.TurnID, now)
		default:
			s.other(p.ThreadID, kinds[method], now)
		}
	})
}

// settings are the parameters of a turn/start besides the message and its thread.
func settings(params json.RawMessage) (all map[string]json.RawMessage) {
	if json.Unmarshal(bytes.Clone(params), &all) != nil {
		return nil
	}
	for _, name := range []string{"threadId", "input", "clientUserMessageId"} {
		delete(all, name)
	}
	maps.DeleteFunc(all, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return all
}

// The bounds of what clients can make the ledger hold.
const (
	maxID      = 128
	maxRecords = 256
)

func (s *state) full(thread string) bool {
	return s.ledger.Threads[thread] == nil && len(s.ledger.Threads) >= maxRecords
}
