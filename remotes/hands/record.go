package hands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/runner/paths"
)

// recordName is the file of the record.
const recordName = "hands.json"

// record outlives the main process of the remote.
type record struct {
	Session string `json:"session"`
	Source  Source `json:"source"`
}

// readRecord reads the record in a directory. A missing one is empty, and so is one that does not parse: another
// session begins then.
func readRecord(dir string) (r record, err error) {
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("cannot read the record of the hands: %w", err)
	}
	if json.Unmarshal(text, &r) != nil || paths.CheckID(r.Session) != nil {
		return record{}, nil
	}
	return r, nil
}

func (r record) write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordName)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("cannot write the record of the hands: %w", err)
	}
	return os.Rename(path+".new", path)
}

// SessionOf is the session in the record of a remote's directory; empty: none yet.
func SessionOf(dir string) (string, error) {
	r, err := readRecord(dir)
	return r.Session, err
}
