package hands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
)

// recordName is the file of the record.
const recordName = "hands.json"

// record outlives the main process of the remote.
type record struct {
	Session string `json:"session"`
	Source  Source `json:"source"`
	// Served means that codex has worked in the session.
	Served bool `json:"served,omitempty"`
	// Renewals are the sessions before in which codex has worked, the oldest first.
	Renewals []renewal `json:"renewals,omitempty"`
	// Forks are threads that are younger than their history, the last one at the end.
	Forks []descent `json:"forks,omitempty"`
}

// descent is a thread with the history of another one.
type descent struct {
	Thread string `json:"thread"`
	Of     string `json:"of"`
}

// mostRecord bounds the file of the record, in bytes: it has the text of a set-up.
const mostRecord = 1 << 20

// errBadRecord means that a record does not parse.
var errBadRecord = errors.New("the record of the hands does not parse")

// readRecord reads the record in a directory. A missing one is empty. The user of the remote writes there, and root
// reads: so no link leads out of the directory above, and nothing but a regular file is read.
func readRecord(dir string) (r record, err error) {
	text, err := readOwnFile(dir, recordName)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("cannot read the record of the hands: %w", err)
	}
	if json.Unmarshal(text, &r) != nil || paths.CheckID(r.Session) != nil {
		return record{}, errBadRecord
	}
	return r, nil
}

// ownRecord reads the record of an earlier process. One that does not parse stays beside the next one, and another
// session begins.
func ownRecord(dir string, logger *slog.Logger) (r record, err error) {
	if r, err = readRecord(dir); !errors.Is(err, errBadRecord) {
		return r, err
	}
	path := filepath.Join(dir, recordName)
	logger.Error("the record of the hands is lost, and a new session begins", "file", path+".bad", "error", err)
	if err := os.Rename(path, path+".bad"); err != nil {
		return r, fmt.Errorf("cannot set the record of the hands aside: %w", err)
	}
	return r, nil
}

// readOwnFile reads a regular file in a directory that the user of the remote writes to.
func readOwnFile(dir, name string) ([]byte, error) {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	path := filepath.Join(filepath.Base(dir), name)
	file, err := above.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file: remove it", filepath.Join(dir, name)))
	}
	return io.ReadAll(io.LimitReader(file, mostRecord))
}

func (r record) write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, recordName), append(text, '\n')); err != nil {
		return fmt.Errorf("cannot write the record of the hands: %w", err)
	}
	return nil
}

// replace replaces a file. After a crash at any moment, of the machine too, the file is the old or the new one.
func replace(path string, content []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// SessionOf is the session in the record of a remote's directory; empty: none yet, or the record does not parse. The
// user of the remote can name any: one with more rights asks codex-runner for its owner.
func SessionOf(dir string) (string, error) {
	r, err := readRecord(dir)
	if errors.Is(err, errBadRecord) {
		return "", nil
	}
	return r.Session, err
}
