package remotes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// ledgerFile is the name of the ledger in the state directory.
const ledgerFile = "turns.json"

// ledger is the content of the file.
type ledger struct {
	// Threads has a record for each thread with a turn that runs, was cut, or was asked for.
	Threads map[string]*record `json:"threads,omitempty"`
	// Last is the thread that was used last; empty: none yet.
	Last string `json:"last,omitempty"`
	// Words are the last words of the model, shortened, and WordsAt their time.
	Words   string    `json:"words,omitempty"`
	WordsAt time.Time `json:"words_at,omitzero"`
	// Continued counts the turns that went on after a cut.
	Continued int `json:"continued,omitempty"`
	// Account is the one that has served last.
	Account string `json:"account,omitempty"`
	// GivenUp counts those that had gone on as often as the settings allow.
	GivenUp int `json:"given_up,omitempty"`
	// Switches counts the changes to another account.
	Switches int `json:"switches,omitempty"`
}

// record is the turn of one thread.
type record struct {
	// Turn is codex's id; empty: the turn was asked for, and codex has not reported it yet.
	Turn  string    `json:"turn,omitempty"`
	Since time.Time `json:"since"`
	// After is the turn before it, if the keeper saw one end.
	After string `json:"after,omitempty"`
	// Kind is the operation that runs in place of a turn of the model; a cut ends it; empty: a turn of the model.
	Kind string `json:"kind,omitempty"`
	// Interrupted is the turn that its user has interrupted; anyTurn if the client named none and none was known.
	Interrupted string `json:"interrupted,omitempty"`
	// Inputs are messages of the user that have gone to codex, and which its files may not have yet.
	Inputs []input `json:"inputs,omitempty"`
	// Continued counts how often the turn went on after a cut.
	Continued int `json:"continued,omitempty"`
	// Mended is the cut turn that the keeper has ended in codex's files, to continue it.
	Mended string `json:"mended,omitempty"`
	// Asked means that the turn was cut, and goes on only if a user wants it.
	Asked bool `json:"asked,omitempty"`
	// Quota means that the turn has ended for want of quota, and goes on when there is some.
	Quota bool `json:"quota,omitempty"`
}

// observed has no time ahead of now: that comes from a clock that was wrong, and nothing that happens now would be
// later.
func (l ledger) observed(now time.Time) ledger {
	for _, r := range l.Threads {
		r.Since = earlier(r.Since, now)
		for i := range r.Inputs {
			r.Inputs[i].At = earlier(r.Inputs[i].At, now)
		}
	}
	return l
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// anyTurn stands for the turn that starts next.
const anyTurn = "*"

// input is one message of the user, in the words of turn/start.
type input struct {
	// Settings are the other parameters of its turn/start, such as the model; none for turn/steer.
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
	ClientID string                     `json:"client_id,omitempty"`
	Content  json.RawMessage            `json:"content"`
	At       time.Time                  `json:"at"`
	// With are the ids of other messages that this one was merged from.
	With []string `json:"with,omitempty"`
	// Request names the request that brought it, for codex's answer; empty: the keeper's own, or one before a restart.
	Request string `json:"-"`
	// Seen means that codex has reported the message as part of a turn; its files may still lack it.
	Seen bool `json:"seen,omitempty"`
}

// errBadLedger means that the file does not parse.
var errBadLedger = errors.New("cannot parse the ledger of turns")

// readLedger reads the file; a missing one is empty. A file that does not parse is an error beside an empty ledger.
func readLedger(dir string) (ledger, error) {
	l := ledger{Threads: map[string]*record{}}
	b, err := readRegular(filepath.Join(dir, ledgerFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return l, fmt.Errorf("cannot read the ledger of turns: %w", err)
	}
	read := ledger{Threads: map[string]*record{}}
	if err := json.Unmarshal(b, &read); err != nil {
		return l, fmt.Errorf("%w: %s: %w", errBadLedger, filepath.Join(dir, ledgerFile), err)
	}
	if read.Threads == nil {
		read.Threads = l.Threads
	}
	for id, r := range read.Threads {
		if r == nil {
			delete(read.Threads, id)
		}
	}
	return read, nil
}

// readRegular reads a regular file that belongs to another user, which may have put a pipe or a link in its place.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	return io.ReadAll(io.LimitReader(f, maxTotal))
}

// writeLedger replaces the file. After a crash at any moment, of the machine too, the file is the old or the new one.
func writeLedger(dir string, content []byte) (err error) {
	path := filepath.Join(dir, ledgerFile)
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write the ledger of turns: %w", err)
		}
	}()
	if err := writeSynced(path+".new", content); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// encode is the content of the file.
func (l *ledger) encode() []byte {
	b, err := json.Marshal(l) // without indentation, which can make a nested message a thousand times as long
	if err != nil {
		panic(err) // no value of a ledger can fail: its raw messages were parsed
	}
	return append(b, '\n')
}

// threads are the ids of all records, the oldest turn first.
func (l *ledger) threads() []string {
	ids := make([]string, 0, len(l.Threads))
	for id := range l.Threads {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return l.Threads[a].Since.Compare(l.Threads[b].Since)
	})
	return ids
}

// clone is a copy that shares nothing that changes.
func (r *record) clone() record {
	c := *r
	c.Inputs = slices.Clone(r.Inputs)
	return c
}

// same reports whether two messages are one: by the client's id, or by the content if the client gave none.
func (i input) same(clientID string, content []byte) bool {
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
