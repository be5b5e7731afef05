package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

// makeSession makes the directories of a session. Its secrets lie in memory alone (a tmpfs).
func (r *Runner) makeSession(id string, secrets map[string]string) error {
	dir := filepath.Join(r.Secrets, id)
	err := errors.Join(os.MkdirAll(filepath.Join(r.StateDir, paths.SessionDir(id)), 0o700), os.MkdirAll(dir, 0o700))
	for name, value := range secrets {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600)
		}
	}
	if err != nil {
		r.removeSession(id)
		return fmt.Errorf("cannot make the files of a session: %w", err)
	}
	return nil
}

// hasSecrets reports whether all secrets of a session are there.
func (r *Runner) hasSecrets(id string, names []string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(r.Secrets, id, name)); err != nil {
			return false
		}
	}
	return true
}

// removeSecrets removes the files of a session that lie in memory.
func (r *Runner) removeSecrets(id string) {
	os.RemoveAll(filepath.Join(r.Secrets, id))
	os.RemoveAll(filepath.Join(r.RuntimeDir, paths.ControlDir(id)))
}

// clearSecrets removes the secrets of a daemon that died while it made or closed a session.
func (r *Runner) clearSecrets(ctx context.Context) error {
	entries, err := os.ReadDir(r.Secrets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot find the secrets of sessions: %w", err)
	}
	for _, entry := range entries {
		id := entry.Name()
		s, err := r.Store.Session(ctx, store.Viewer{All: true}, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			r.removeSession(id)
		case err != nil:
			return fmt.Errorf("cannot read the store: %w", err)
		case s.State == wire.SessionClosed:
			r.removeSecrets(id)
		}
	}
	return nil
}

// removeSession removes all files of a session.
func (r *Runner) removeSession(id string) {
	r.removeSecrets(id)
	os.RemoveAll(filepath.Join(r.StateDir, paths.SessionDir(id)))
}

// dir is the directory of a command.
func (r *Runner) dir(id string, number int) string {
	return filepath.Join(r.StateDir, paths.CommandDir(id, number))
}

// file is the path of a file of a command.
func (r *Runner) file(id string, number int, name string) string {
	return filepath.Join(r.dir(id, number), name)
}

// Log returns the paths of the log of a command, which exist from the start of its unit on.
func (r *Runner) Log(id string, number int) (output, index string) {
	return r.file(id, number, paths.Output), r.file(id, number, paths.Index)
}

// writeCommand writes the files of a command that is about to start.
func (r *Runner) writeCommand(id string, number int, spec *session.Spec) error {
	text, err := session.Encode(spec)
	if err == nil {
		err = os.MkdirAll(r.dir(id, number), 0o700)
	}
	if err == nil {
		err = os.WriteFile(r.file(id, number, paths.Spec), text, 0o600)
	}
	if err == nil {
		current := filepath.Join(r.StateDir, paths.SessionDir(id), paths.Current)
		err = replace(current, []byte(strconv.Itoa(number)))
	}
	if err != nil {
		return fmt.Errorf("cannot write the files of a command: %w", err)
	}
	return nil
}

// replace writes a file at once: a reader never sees a part.
func replace(path string, content []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// has reports whether a command has that file.
func (r *Runner) has(id string, number int, name string) bool {
	_, err := os.Stat(r.file(id, number, name))
	return err == nil
}

// read reads a file of a command with f. It returns nil if the file is missing or not whole.
func read[T any](path string, f func(io.Reader) (*T, error)) (*T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	v, err := f(file)
	if err != nil {
		return nil, nil //nolint:nilerr // its writer was interrupted
	}
	return v, nil
}
