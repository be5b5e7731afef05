package codexhome

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile replaces path in one step, readable for the owner alone, unless path already has this content.
func writeFile(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return os.Chmod(path, 0o600)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made 0600
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// link makes path a symbolic link to dest, replacing one in one step.
func link(dest, path string) error {
	if old, err := os.Readlink(path); err == nil && old == dest {
		return nil
	}
	temp := path + ".new"
	if err := removeFiles(temp); err != nil {
		return err
	}
	if err := os.Symlink(dest, temp); err != nil {
		return fmt.Errorf("cannot link %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("cannot link %s: %w", path, err)
	}
	return nil
}

func removeFiles(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove %s: %w", path, err)
		}
	}
	return nil
}
