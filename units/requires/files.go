package requires

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// maxFile bounds the part of a file that is read, in bytes.
const maxFile = 1 << 20

// All returns the requirements of each file below dir, /etc/codex-proxy: the service first, then the workers by name.
// It has no entry for a file that requires nothing. The error joins the faults of files; the other files count all the
// same.
func All(dir string) ([]By, error) {
	service, err := Read(paths.ServiceUnit, filepath.Join(dir, filepath.Base(paths.Config)))
	workers, faults := Workers(filepath.Join(dir, filepath.Base(paths.WorkerSettings)))
	if len(service.Requires) > 0 {
		workers = append([]By{service}, workers...)
	}
	return workers, errors.Join(err, faults)
}

// Workers is All of the files of workers in dir.
func Workers(dir string) (all []By, err error) {
	files, _ := fs.Glob(os.DirFS(dir), "*.toml") // the pattern is valid
	var faults []error
	for _, file := range files {
		name := strings.TrimSuffix(file, ".toml")
		if units.ValidName(name) != nil { // of an editor
			continue
		}
		b, err := Read(units.Worker(name), filepath.Join(dir, file))
		if err != nil {
			faults = append(faults, err)
		}
		if len(b.Requires) > 0 {
			all = append(all, b)
		}
	}
	return all, errors.Join(faults...)
}

// Read returns the requirements of the unit's file, and nothing with an error. The other keys of the file do not
// matter: a fault of theirs has its own error at the start of the unit. A file that does not exist requires nothing.
func Read(unit, file string) (By, error) {
	b := By{Unit: unit, File: file}
	text, err := read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return b, err
	case len(text) > maxFile:
		return b, fmt.Errorf("%s: has more than %d bytes", file, maxFile)
	}
	var s Settings
	if err := toml.Unmarshal(text, &s); err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	if fault := s.Check(); fault != nil {
		return b, fmt.Errorf("%s: %s; %s", file, fault.Text, fault.Remedy)
	}
	b.Settings = s
	return b, nil
}

// read reads at most one byte more than maxFile, and opens no device and no pipe, which would block a boot.
func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}
