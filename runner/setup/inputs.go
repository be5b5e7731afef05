package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"codex-proxy/runner/artifact"
)

// Input is a file that a script depends on.
type Input struct {
	Path   string `json:"path"`   // in the repository
	Digest string `json:"digest"` // the SHA-256 of its content, in hexadecimal digits
}

// The bounds of the inputs of a script.
const (
	maxFiles      = 4096
	maxInputBytes = 64 << 20 // of each
	maxWalked     = 200_000  // files and directories of the repository
)

// ReadInputs returns the files of the repository that match the script's inputs, by path. Links are no inputs, and
// packages that the script has installed are none either, but for a pattern that begins with their directory.
func (s *Script) ReadInputs(repository fs.FS) (all []Input, err error) {
	var patterns []artifact.Pattern
	for _, text := range s.Inputs {
		p, err := artifact.Parse(text)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, p)
	}
	walked := 0
	err = fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if walked++; walked > maxWalked {
			return fmt.Errorf("the repository has more than %d files: name the inputs without **", maxWalked)
		}
		if d.IsDir() {
			return s.skipped(repository, patterns, name)
		}
		if !d.Type().IsRegular() || !matches(patterns, name) {
			return nil
		}
		if len(all) == maxFiles {
			return fmt.Errorf("inputs match more than %d files: use narrower patterns", maxFiles)
		}
		digest, err := digestOf(repository, name)
		all = append(all, Input{name, digest})
		return err
	})
	return all, err
}

func (s *Script) skipped(repository fs.FS, patterns []artifact.Pattern, dir string) error {
	if dir == ".git" || filled(repository, dir) && !s.names(dir) {
		return fs.SkipDir
	}
	for _, p := range patterns {
		if dir == "." || p.Reaches(dir) {
			return nil
		}
	}
	return fs.SkipDir
}

// filled reports whether installers fill the directory: it has a name of theirs, or the tag of a cache, as Cargo and uv
// write it (https://bford.info/cachedir). Their changes there would have the script run again.
func filled(repository fs.FS, dir string) bool {
	if slices.Contains([]string{"node_modules", ".venv", ".conda", ".yarn"}, path.Base(dir)) {
		return true
	}
	_, err := fs.Stat(repository, path.Join(dir, "CACHEDIR.TAG"))
	return dir != "." && err == nil
}

// names reports whether an input begins with the directory.
func (s *Script) names(dir string) bool {
	return slices.ContainsFunc(s.Inputs, func(pattern string) bool { return strings.HasPrefix(pattern, dir+"/") })
}

func matches(patterns []artifact.Pattern, name string) bool {
	for _, p := range patterns {
		if p.Matches(name) {
			return true
		}
	}
	return false
}

func digestOf(repository fs.FS, name string) (string, error) {
	file, err := repository.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot read the input: %w", err)
	}
	defer func() { _ = file.Close() }() // it was read
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(file, maxInputBytes+1))
	if err == nil && n > maxInputBytes {
		err = errors.New("is larger than 64 MiB: leave it out of the inputs")
	}
	if err != nil {
		return "", fmt.Errorf("input %s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readBounded reads a small regular file.
func readBounded(repository fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(repository, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of at most %d KiB", name, maxFile>>10)
	}
	return fs.ReadFile(repository, name)
}
