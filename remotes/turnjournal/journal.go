// Package turnjournal has the turn journal of a remote, which outlives codex and its main process: the turns that run
// or were cut, with the messages of their users.
package turnjournal

import (
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

// File is the name of the turn journal in the state directory.
const File = "turns.json"

// Journal is the content of the file.
type Journal struct {
	// Threads has a record for each thread with a turn that runs, was cut, or was asked for.
	Threads map[string]*Record `json:"threads,omitempty"`
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

// Observed has no time ahead of now: that comes from a clock that was wrong, and nothing that happens now would be
// later.
func (l Journal) Observed(now time.Time) Journal {
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

// ErrBad means that the file does not parse.
var ErrBad = errors.New("cannot parse the turn journal")

// maxFile bounds the file, in bytes.
const maxFile = 1 << 30

// Read reads the file; a missing one is empty. A file that does not parse is an error beside an empty turn
// journal.
func Read(dir string) (Journal, error) {
	l := Journal{Threads: map[string]*Record{}}
	b, err := readRegular(filepath.Join(dir, File))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return l, fmt.Errorf("cannot read the turn journal: %w", err)
	}
	read := Journal{Threads: map[string]*Record{}}
	if err := json.Unmarshal(b, &read); err != nil {
		return l, fmt.Errorf("%w: %s: %w", ErrBad, filepath.Join(dir, File), err)
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
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// Write replaces the file. After a crash at any moment, of the machine too, the file is the old or the new
// one.
func Write(dir string, content []byte) (err error) {
	path := filepath.Join(dir, File)
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write the turn journal: %w", err)
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

// Encode is the content of the file.
func (l *Journal) Encode() []byte {
	b, err := json.Marshal(l) // without indentation, which can make a nested message a thousand times as long
	if err != nil {
		panic(err) // no value of a turn journal can fail: its raw messages were parsed
	}
	return append(b, '\n')
}

// IDs are the ids of all records, the oldest turn first.
func (l *Journal) IDs() []string {
	ids := make([]string, 0, len(l.Threads))
	for id := range l.Threads {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return l.Threads[a].Since.Compare(l.Threads[b].Since)
	})
	return ids
}
