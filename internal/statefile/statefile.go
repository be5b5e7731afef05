// Package statefile keeps the knowledge of a service over a restart in files of JSON, which its user alone may read.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Read reads a file that Write has written, up to limit bytes of it. what names the content in an error, which is
// fs.ErrNotExist if there is no file.
func Read(path, what string, limit int64, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, limit)).Decode(v); err != nil {
		return fmt.Errorf("%s is not a file of %s: %w", path, what, err)
	}
	return nil
}

// Write replaces the file at once: another process reads the old or the new one. Its mode is 0600.
func Write(path string, v any) (err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
