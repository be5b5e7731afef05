// Package rollout reads the end of codex's file of a thread, and ends a cut turn in it.
package rollout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"

	"golang.org/x/sys/unix"
)

// Rollout is the end of codex's file of a thread: one JSON object a line (0.169). The file is the rest of a turn
// when codex is killed; codex's own lists of turns lag behind it.
type Rollout struct {
	Turns []codexthread.Turn // the last ones, the newest first; a turn without an end is interrupted
	lines []line             // the last ones, the newest first
}

// line is a line of the file that is read as a whole.
type line struct {
	begin, end int64 // end is after the newline
	text       []byte
}

// record of the file, as far as the manager reads it.
type rolloutRecord struct {
	Type    string `json:"type"`
	Payload struct {
		Type   string `json:"type"`
		TurnID string `json:"turn_id"`
		Role   string `json:"role"`
		Item   struct {
			Type     string          `json:"type"`
			ClientID string          `json:"client_id"`
			Content  json.RawMessage `json:"content"`
		} `json:"item"`
		Attribution struct {
			TurnID string `json:"turn_id"`
		} `json:"turn_attribution"`
	} `json:"payload"`
}

// Open opens the file of a thread below codex's home, and no other: codex and its tools can write there, and
// give any path, and the manager can open files that they cannot.
func Open(home, path, thread string, flag int) (*os.File, error) {
	_, relative, found := strings.Cut(filepath.Clean(path), "/sessions/")
	if !found || !strings.Contains(filepath.Base(relative), thread) {
		return nil, fmt.Errorf("%q is no file of the thread", path)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	sessions, err := root.OpenRoot("sessions")
	if err != nil {
		return nil, err
	}
	defer sessions.Close()
	f, err := sessions.OpenFile(relative, flag|unix.O_NONBLOCK, 0) // a FIFO does not block
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("%s is no regular file", path))
	}
	return f, nil
}

// keptLines is how many of the last lines are kept: of the messages of a user that codex wrote half.
const keptLines = turnjournal.MaxInputs + 1

// Read reads the file from its end, up to the beginning of as many turns.
func Read(f *os.File, turns int) (r Rollout, err error) {
	var open codexthread.Turn // with a beginning that is not read yet
	for b := newBackward(f); len(r.Turns) < turns; {
		l, err := b.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return r, err
		}
		if len(r.lines) < keptLines && len(bytes.TrimSpace(l.text)) > 0 {
			r.lines = append(r.lines, line{l.begin, l.end, bytes.Clone(l.text)})
		}
		if !bytes.Contains(l.text[:min(len(l.text), 256)], []byte(`"event_msg"`)) {
			continue
		}
		var rec rolloutRecord
		if err := json.Unmarshal(l.text, &rec); err != nil {
			return r, fmt.Errorf("a line does not parse: %w", err)
		}
		switch p := rec.Payload; p.Type {
		case "task_complete":
			open = codexthread.Turn{Status: codexthread.Completed}
		case "turn_aborted":
			open = codexthread.Turn{Status: codexthread.Aborted}
		case "item_completed":
			if p.Item.Type == "UserMessage" {
				open.Items = append(open.Items, codexthread.Item{Type: "userMessage", ClientID: p.Item.ClientID,
					Content: p.Item.Content})
			}
		case "task_started":
			open.ID, open.Status = cmp.Or(p.Attribution.TurnID, p.TurnID), cmp.Or(open.Status, codexthread.Interrupted)
			r.Turns = append(r.Turns, open)
			open = codexthread.Turn{}
		}
	}
	if len(r.lines) == 0 {
		return r, errors.New("it has no whole line")
	}
	return r, nil
}

// backward reads lines from the end of a file. Bytes after the last newline are no line: codex was killed as it wrote.
type backward struct {
	f     *os.File
	at    int64  // the offset of buf
	buf   []byte // read and not returned yet; ends with a newline
	total int64
}

// The bounds of the read bytes. Codex accepts messages of 64 MiB.
const (
	chunk    = 64 << 10
	maxLine  = 128 << 20
	maxTotal = 1 << 30
)

func newBackward(f *os.File) *backward { return &backward{f: f, at: -1} }

// next returns the line before the last one, valid until the next call; io.EOF at the beginning of the file.
func (b *backward) next() (line, error) {
	if b.at < 0 {
		info, err := b.f.Stat()
		if err != nil {
			return line{}, err
		}
		b.at = info.Size()
		for !bytes.Contains(b.buf, []byte{'\n'}) {
			if err := b.fill(); err != nil {
				return line{}, err
			}
		}
		b.buf = b.buf[:bytes.LastIndexByte(b.buf, '\n')+1]
	}
	for {
		if len(b.buf) == 0 && b.at == 0 {
			return line{}, io.EOF
		}
		if len(b.buf) > 0 {
			begin := bytes.LastIndexByte(b.buf[:len(b.buf)-1], '\n') + 1
			if begin > 0 || b.at == 0 {
				l := line{b.at + int64(begin), b.at + int64(len(b.buf)), b.buf[begin : len(b.buf)-1]}
				b.buf = b.buf[:begin]
				return l, nil
			}
		}
		if err := b.fill(); err != nil {
			return line{}, err
		}
	}
}

// fill reads more in front of buf, twice as much each time a line does not end.
func (b *backward) fill() error {
	if b.at == 0 {
		return io.EOF
	}
	from := max(0, b.at-max(chunk, int64(len(b.buf))))
	if b.total += b.at - from; len(b.buf) > maxLine || b.total > maxTotal {
		return errors.New("it is too large")
	}
	more := make([]byte, b.at-from, b.at-from+int64(len(b.buf)))
	if _, err := b.f.ReadAt(more, from); err != nil {
		return err
	}
	b.at, b.buf = from, append(more, b.buf...)
	return nil
}
