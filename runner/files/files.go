// Package files has the files of sessions and their commands: the daemon writes them before the start of a unit, and
// reads the files that root and the main process have left after its end.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// Files has the directories of the daemon. Nothing of it changes, so it needs no lock; one goroutine at a time writes
// the files of a command.
type Files struct {
	StateDir   string // paths.StateDir
	RuntimeDir string // paths.RuntimeDir
	Secrets    string // paths.Secrets: in memory alone (a tmpfs)
}

// Make makes the directories of a session, with its secrets, and with texts by the names of their files, if it has any.
func (f Files) Make(id string, secrets, texts map[string]string) error {
	dir := filepath.Join(f.Secrets, id)
	err := errors.Join(os.MkdirAll(f.Session(id), 0o700), os.MkdirAll(dir, 0o700))
	for name, value := range secrets {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600)
		}
	}
	for name, text := range texts {
		if err == nil && text != "" {
			err = os.WriteFile(filepath.Join(f.Session(id), name), []byte(text), 0o600)
		}
	}
	if err != nil {
		f.Remove(id)
		return fmt.Errorf("cannot make the files of a session: %w", err)
	}
	return nil
}

// SetUp is the text of the set-up that a session gave, or "".
func (f Files) SetUp(id string) (string, error) {
	text, err := os.ReadFile(filepath.Join(f.Session(id), paths.SetUp))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

// HasSecrets reports whether all secrets of a session are there.
func (f Files) HasSecrets(id string, names []string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(f.Secrets, id, name)); err != nil {
			return false
		}
	}
	return true
}

// InMemory returns the sessions that have a directory for secrets.
func (f Files) InMemory() (ids []string, err error) {
	entries, err := os.ReadDir(f.Secrets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot find the secrets of sessions: %w", err)
	}
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids, nil
}

// RemoveSecrets removes the files of a session that lie in memory.
func (f Files) RemoveSecrets(id string) {
	os.RemoveAll(filepath.Join(f.Secrets, id))
	os.RemoveAll(f.Control(id))
}

// Remove removes all files of a session.
func (f Files) Remove(id string) {
	f.RemoveSecrets(id)
	os.RemoveAll(f.Session(id))
}

// Control is the directory of the control socket of a session.
func (f Files) Control(id string) string { return filepath.Join(f.RuntimeDir, paths.ControlDir(id)) }

// Session is the directory of a session.
func (f Files) Session(id string) string { return filepath.Join(f.StateDir, paths.SessionDir(id)) }

// Command is the directory of a command.
func (f Files) Command(id string, number int) string {
	return filepath.Join(f.StateDir, paths.CommandDir(id, number))
}

// Path is the path of a file of a command.
func (f Files) Path(id string, number int, name string) string {
	return filepath.Join(f.Command(id, number), name)
}

// Has reports whether a command has that file.
func (f Files) Has(id string, number int, name string) bool {
	_, err := os.Stat(f.Path(id, number, name))
	return err == nil
}

// WriteCommand writes the files of a command that is about to start.
func (f Files) WriteCommand(id string, number int, spec *session.Spec) error {
	text, err := session.Encode(spec)
	if err == nil {
		err = os.MkdirAll(f.Command(id, number), 0o700)
	}
	if err == nil {
		err = os.WriteFile(f.Path(id, number, paths.Spec), text, 0o600)
	}
	if err == nil {
		err = Replace(filepath.Join(f.Session(id), paths.Current), []byte(strconv.Itoa(number)))
	}
	if err != nil {
		return fmt.Errorf("cannot write the files of a command: %w", err)
	}
	return nil
}

// Spec is the specification of a command; nil without a whole one.
func (f Files) Spec(id string, number int) (*session.Spec, error) {
	return Read(f.Path(id, number, paths.Spec), func(r io.Reader) (*session.Spec, error) {
		text, err := io.ReadAll(io.LimitReader(r, session.MaxSpec+1))
		if err != nil {
			return nil, err
		}
		return session.ReadSpec(bytes.NewReader(text))
	})
}

// Result is the result of the main process of a command; nil without a whole one.
func (f Files) Result(id string, number int) (*session.Result, error) {
	return Read(f.Path(id, number, paths.Result), session.ReadResult)
}

// Ended is root's record of the end of a command's unit; nil without a whole one.
func (f Files) Ended(id string, number int) (*session.Ended, error) {
	return Read(f.Path(id, number, paths.Ended), session.ReadEnded)
}

// Workspace is the state of a session's workspace, as its files show it.
type Workspace int

// The states of a workspace.
const (
	NotMade Workspace = iota
	Unknown           // the host has stopped with the command that makes it: root's note in the slot decides
	Made              // the next command takes it as it is
)

// Workspace returns whether an earlier command of a session has made its workspace, before the nth.
func (f Files) Workspace(id string, number int) Workspace {
	known := NotMade
	for n := number - 1; n > 0; n-- {
		if result, err := f.Result(id, n); err == nil && result != nil {
			return madeIf(result.HasSettled())
		}
		if ended, err := f.Ended(id, n); err != nil || ended != nil {
			// A main process without a result was killed, by its command as a rule.
			return madeIf(ended != nil && ended.Refusal == "" && ended.ExitCode != "")
		}
		if f.Has(id, n, paths.Output) {
			known = Unknown
		}
	}
	return known
}

func madeIf(made bool) Workspace {
	if made {
		return Made
	}
	return NotMade
}

// Replace writes a file at once: a reader never sees a part.
func Replace(path string, content []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Read reads a file with parse. It returns nil if the file is missing or not whole.
func Read[T any](path string, parse func(io.Reader) (*T, error)) (*T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	v, err := parse(file)
	if err != nil {
		return nil, nil //nolint:nilerr // its writer was interrupted
	}
	return v, nil
}
