// Package settingsfile reads the files in which a person describes the programs of units, NAME.toml, one for each name,
// and writes the drop-ins that are made of them.
package settingsfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/strict"
)

// MaxFiles bounds the files of a directory.
const MaxFiles = 256

// MaxSize bounds a file, in bytes.
const MaxSize = 64 << 10

// Kind is the kind of things that the files of a directory describe.
type Kind struct {
	Many  string                  // as a person reads and writes them: remotes
	Valid func(name string) error // the fault of a name that a unit cannot have
}

// Names returns the names of all that have a file in dir, sorted. A directory that does not exist has none. Files with
// an invalid name do not count: a unit cannot have it either.
func (k Kind) Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the %s: %w", k.Many, err)
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".toml")
		if ok && k.Valid(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > MaxFiles {
		return names[:MaxFiles], fmt.Errorf("%s has more than %d %s: %s and those after it are left out",
			dir, MaxFiles, k.Many, names[MaxFiles])
	}
	return names, nil
}

// Read reads a file. The error is a *strict.Error.
func (k Kind) Read(file string) ([]byte, error) {
	text, err := read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &strict.Error{File: file, Text: "there is no such file: `codex-proxy " + k.Many + " add` makes one"}
	case err != nil:
		return nil, &strict.Error{File: file, Text: fmt.Sprintf("cannot read the file: %v", reason(err))}
	}
	return text, nil
}

// reason is the error without the path, which stands before it.
func reason(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// read opens no device and no pipe, which would block a boot.
func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Decode reads the keys of a text that is a file's, or will be, into r, and returns the name of the described thing.
// The error is a *strict.Error, or joins several of them: each names the file, the line, the key and the remedy.
func (k Kind) Decode(file string, text []byte, r any) (name string, err error) {
	name, isTOML := strings.CutSuffix(filepath.Base(file), ".toml")
	if err := k.Valid(name); err != nil || !isTOML {
		return "", &strict.Error{File: file, Text: cmp.Or(err, errors.New("must be named NAME.toml")).Error()}
	}
	if len(text) > MaxSize {
		return "", &strict.Error{File: file, Text: fmt.Sprintf("is longer than %d KiB", MaxSize>>10)}
	}
	return name, strict.Decode(file, text, r)
}

// Generate calls one with each file of the directory dir. The error joins all faults.
func (k Kind) Generate(dir string, one func(file string) error) error {
	names, err := k.Names(dir)
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, one(filepath.Join(dir, name+".toml")))
	}
	return errors.Join(errs...)
}

// WriteDropIn writes a drop-in of a unit into dir, systemd's directory of generated units.
func WriteDropIn(dir, unit string, text []byte) error {
	dir = filepath.Join(dir, unit+".d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "50-settings.conf"), text, 0o644)
}
