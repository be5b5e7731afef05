package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Args returns the command that runs the script. It shows each step, and ends at the first one that fails.
func (s *Script) Args() []string { return []string{"/bin/sh", "-eux", "-c", s.Run} }

// TestArgs returns the command that runs Test. It goes on after a step that fails.
func (s *Script) TestArgs() []string { return []string{"/bin/sh", "-ux", "-c", s.Test} }

// Idle reports whether the script has no command: the repository needs nothing beforehand.
func (s *Script) Idle() bool {
	for line := range strings.Lines(s.Run) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

// Directory returns where the script runs, relative to the checkout. A link out of the checkout is an error.
func (s *Script) Directory(checkout string) (string, error) {
	target, err := filepath.EvalSymlinks(filepath.Join(checkout, s.Dir))
	if err == nil && !below(target, checkout) {
		err = errors.New("it leads out of the repository")
	}
	if err != nil {
		return "", fmt.Errorf("dir of the set-up is %q, which is no directory of the repository: %w", s.Dir, err)
	}
	return s.Dir, nil
}

func below(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// Variables returns the variables of the script alone: they have package managers take the packages of the store.
func (o Order) Variables() map[string]string {
	all := map[string]string{"LC_ALL": "C.UTF-8", "CODEX_RUNNER_STORE": o.Store.Dir}
	if o.Store.Dir != "" {
		all["PIP_NO_INDEX"], all["PIP_FIND_LINKS"] = "1", o.Store.Dir
	}
	return all
}

// Mark is the file that has the key of the script that has run whole.
type Mark string

// Has reports whether the script of that key has run.
func (m Mark) Has(key string) bool {
	data, err := os.ReadFile(string(m))
	return err == nil && string(data) == key+"\n"
}

// Set records that the script of that key has run.
func (m Mark) Set(key string) error { return os.WriteFile(string(m), []byte(key+"\n"), 0o600) }

// Remove has the next script run, whatever its key.
func (m Mark) Remove() error {
	if err := os.Remove(string(m)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
