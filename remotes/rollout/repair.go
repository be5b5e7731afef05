package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"
)

// Repair makes codex's file of a thread, which codex does not have loaded, ready for the next turn, which continues the
// cut one: it ends the cut turn, if any, else codex shows that turn to people as interrupted for ever. Before that it
// takes back the messages of the user that are lost all the same: codex wrote them for the model, and was killed before
// it wrote them for people. An empty line is in their place.
func Repair(f *os.File, r Rollout, lost []turnjournal.Input, now time.Time) error {
	if len(r.Turns) == 0 || r.Turns[0].Status != codexthread.Interrupted {
		return nil
	}
	last := r.lines[0]
	from, left := last.end, slices.Clone(lost)
	for _, l := range r.lines[:len(r.lines)-1] {
		n := half(l.text, left)
		if n < 0 {
			break
		}
		from, left = l.begin, slices.Delete(left, n, n+1)
	}
	end, err := completion(last.text, r.Turns[0].ID, now)
	if err != nil {
		return err
	}
	if err := f.Truncate(last.end); err != nil { // half a line, which would spoil the next one
		return err
	}
	_, err = f.WriteAt(append(blank(last.end-from), end...), from)
	return err
}

// blank is an empty line in place of lines: codex's index in sqlite goes on at a byte of the file, and would pass over
// the end of the turn if that came before.
func blank(size int64) []byte {
	b := bytes.Repeat([]byte{' '}, int(size))
	if size > 0 {
		b[size-1] = '\n'
	}
	return b
}

// half is the index of the message of the user that a line has for the model; -1 if it has none of them.
func half(text []byte, lost []turnjournal.Input) int {
	var l struct {
		Type    string `json:"type"`
		Payload struct {
			Type    string `json:"type"`
			Role    string `json:"role"`
			Content []part `json:"content"`
		} `json:"payload"`
	}
	if len(lost) == 0 || !bytes.Contains(text[:min(len(text), 256)], []byte(`"response_item"`)) ||
		json.Unmarshal(text, &l) != nil || l.Payload.Type != "message" || l.Payload.Role != "user" {
		return -1
	}
	has := func(text string) bool {
		return slices.ContainsFunc(l.Payload.Content, func(p part) bool { return p.Text == text })
	}
	return slices.IndexFunc(lost, func(i turnjournal.Input) bool {
		var want []part
		return json.Unmarshal(i.Content, &want) == nil &&
			!slices.ContainsFunc(want, func(w part) bool { return w.Type == "text" && !has(w.Text) })
	})
}

// part is a part of a message: of the text, if it has any.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// rolloutLine is any line of the file.
type rolloutLine struct {
	Timestamp string          `json:"timestamp"`
	Ordinal   *int64          `json:"ordinal"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`
}

// taskComplete is the payload of the line that ends a turn.
type taskComplete struct {
	Type        string  `json:"type"`
	RootTurnID  string  `json:"root_turn_id"`
	TurnID      string  `json:"turn_id"`
	LastMessage *string `json:"last_agent_message"`
}

// unusedOrdinals are left out before the line that ends a turn: codex's index in sqlite may know lines that the file
// has lost or never got, and passes over a line with an ordinal that it knows. The index of 0.153 ends at the gap.
const unusedOrdinals = 100

// completion is the line after last that ends the turn.
func completion(last []byte, turnID string, now time.Time) ([]byte, error) {
	var l rolloutLine
	if err := json.Unmarshal(last, &l); err != nil {
		return nil, err
	}
	if l.Ordinal == nil || l.Type == "" || l.Timestamp == "" {
		return nil, errors.New("the form of its lines is unknown")
	}
	payload, err := json.Marshal(taskComplete{Type: "task_complete", RootTurnID: turnID, TurnID: turnID})
	if err != nil {
		return nil, err
	}
	*l.Ordinal += unusedOrdinals + 1
	b, err := json.Marshal(rolloutLine{now.UTC().Format("2006-01-02T15:04:05.000Z"), l.Ordinal, "event_msg", payload})
	return append(b, '\n'), err
}
