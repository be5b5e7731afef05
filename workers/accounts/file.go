package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FileName is the name of the file in the state directory of the service.
const FileName = "accounts.json"

// maxFile bounds the file, in bytes: far more than the accounts of any service take.
const maxFile = 8 << 20

// ReadFile reads a file that WriteFile has written. The error is fs.ErrNotExist if there is no file.
func ReadFile(path string) (Saved, error) {
	f, err := os.Open(path)
	if err != nil {
		return Saved{}, err
	}
	defer f.Close()
	var saved Saved
	if err := json.NewDecoder(io.LimitReader(f, maxFile)).Decode(&saved); err != nil {
		return Saved{}, fmt.Errorf("%s is not a file of accounts: %w", path, err)
	}
	return saved, nil
}

// WriteFile replaces the file at once: another process reads the old or the new one. It has
// the addresses of the accounts' owners, so its mode is 0600.
func WriteFile(path string, saved Saved) (err error) {
	text, err := json.Marshal(saved)
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
