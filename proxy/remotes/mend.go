package remotes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rolloutLine is a line of codex's file of a thread (0.169).
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

// mend makes codex's file of a thread, which codex does not have loaded, ready for the next turn, which continues the cut
// one: it ends the cut turn, else codex shows that turn to people as interrupted for ever. Before that it takes back
// the user's messages that are lost all the same: codex wrote them for the model, and was killed before it wrote them for
// people. It changes no file that it does not know.
func mend(home, path, thread, turnID string, lost []input, now time.Time) error {
	relative, err := filepath.Rel(filepath.Join(home, "sessions"), path)
	if err != nil || !filepath.IsLocal(relative) || !strings.Contains(filepath.Base(path), thread) {
		return fmt.Errorf("%s is no file of the thread", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	end := info.Size()
	for left := slices.Clone(lost); ; {
		begin, after, last, err := lastLine(f, end)
		if err != nil {
			return fmt.Errorf("cannot read the end of %s: %w", path, err)
		}
		if n := half(last, left); n >= 0 {
			left, end = slices.Delete(left, n, n+1), begin
			continue
		}
		line, err := completion(last, turnID, now)
		if err != nil {
			return fmt.Errorf("cannot add to %s: %w", path, err)
		}
		if err := f.Truncate(after); err != nil { // half a line, too, which would spoil the next one
			return err
		}
		_, err = f.WriteAt(line, after)
		return err
	}
}

// lastLine is the last whole line before the offset end, without its newline, and the offsets of its beginning and after
// it.
func lastLine(f *os.File, end int64) (begin, after int64, line []byte, err error) {
	for size := int64(64 << 10); ; size *= 4 {
		from := max(0, end-size)
		b := make([]byte, end-from)
		if _, err := f.ReadAt(b, from); err != nil {
			return 0, 0, nil, err
		}
		last := bytes.LastIndexByte(b, '\n')
		first := bytes.LastIndexByte(b[:max(last, 0)], '\n')
		switch {
		case last >= 0 && (first >= 0 || from == 0):
			return from + int64(first) + 1, from + int64(last) + 1, b[first+1 : last], nil
		case from == 0:
			return 0, 0, nil, errors.New("it has no whole line")
		}
	}
}

// half is the index of the message of the user that a line has for the model; -1 if it has none of them.
func half(line []byte, lost []input) int {
	var l struct {
		Type    string `json:"type"`
		Payload struct {
			Type    string `json:"type"`
			Role    string `json:"role"`
			Content []part `json:"content"`
		} `json:"payload"`
	}
	if json.Unmarshal(line, &l) != nil || l.Type != "response_item" || l.Payload.Type != "message" ||
		l.Payload.Role != "user" {
		return -1
	}
	return slices.IndexFunc(lost, func(i input) bool {
		var want []part
		if json.Unmarshal(i.Content, &want) != nil {
			return false
		}
		return !slices.ContainsFunc(want, func(w part) bool {
			return w.Type == "text" && !slices.ContainsFunc(l.Payload.Content, func(p part) bool { return p.Text == w.Text })
		})
	})
}

// part is a part of a message: of the text, if it has any.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// completion is the line after last that ends the turn.
func completion(last []byte, turnID string, now time.Time) ([]byte, error) {
	var l rolloutLine
	if err := json.Unmarshal(last, &l); err != nil {
		return nil, err
	}
	if l.Ordinal == nil || l.Type == "" || l.Timestamp == "" {
		return nil, errors.New("its form is unknown")
	}
	payload, err := json.Marshal(taskComplete{Type: "task_complete", RootTurnID: turnID, TurnID: turnID})
	if err != nil {
		return nil, err
	}
	*l.Ordinal++
	b, err := json.Marshal(rolloutLine{now.UTC().Format("2006-01-02T15:04:05.000Z"), l.Ordinal, "event_msg", payload})
	return append(b, '\n'), err
}
