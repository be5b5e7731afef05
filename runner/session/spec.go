// Package session holds the files of one command of a session: the Spec, which the daemon writes before the start of
// the unit; the Result of the unit's main process; and the record of the unit's end, Ended. A command has ended when
// its Ended exists. Each file is one JSON object with a version.
package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Version is the version of all three files.
const Version = 1

// The bounds of a Spec.
const (
	MaxSpec    = 1 << 20 // bytes of the file
	MaxTimeout = 24 * time.Hour
	MaxGrace   = time.Minute
	MaxSlot    = 9999
)

// Spec says what to run. The file is made by the daemon and read by root and by the session, which both call ReadSpec.
type Spec struct {
	Version int `json:"version"`
	// Args is the command. Its first element is a path, absolute or from the working directory, or a name to look up
	// in PATH.
	Args []string `json:"args"`
	// Directory is the working directory, relative to the workspace.
	Directory string `json:"directory,omitempty"`
	// Env is added to the small environment that every command has.
	Env map[string]string `json:"env,omitempty"`
	// Timeout bounds the command from its start, in nanoseconds. Then it gets SIGTERM, and SIGKILL after Grace.
	Timeout time.Duration `json:"timeout_ns"`
	Grace   time.Duration `json:"grace_ns"`
	// OutputLimit bounds the standard output and the standard error together, in bytes.
	OutputLimit int64 `json:"output_limit"`
	// FileSize bounds each file that the command writes, in bytes (RLIMIT_FSIZE); 0 does not.
	FileSize int64 `json:"file_size,omitempty"`
	// Slot is the number of the slot of the pool that the session has leased.
	Slot int `json:"slot"`
}

// ReadSpec reads and checks a Spec. It reads from the beginning and leaves the offset of the file, which processes
// share, as it is.
func ReadSpec(file io.ReaderAt) (*Spec, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, MaxSpec+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the specification of the command: %w", err)
	}
	if len(text) > MaxSpec {
		return nil, fmt.Errorf("the specification of the command is longer than %d bytes: shorten its arguments and its "+
			"environment", MaxSpec)
	}
	spec := &Spec{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(spec); err != nil {
		return nil, fmt.Errorf("cannot read the specification of the command: %w", err)
	}
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("the specification of the command is wrong: %w", err)
	}
	return spec, nil
}

// Check returns an error that names the first field out of its range.
func (s *Spec) Check() error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("version is %d, this program knows %d: restart codex-runner.service after an upgrade",
			s.Version, Version)
	case len(s.Args) == 0 || s.Args[0] == "":
		return errors.New("args is empty: name a command")
	case s.Directory != "" && !filepath.IsLocal(s.Directory):
		return fmt.Errorf("directory is %q: use a path that begins in the workspace and stays there", s.Directory)
	case s.Timeout <= 0 || s.Timeout > MaxTimeout:
		return fmt.Errorf("timeout is %v: use a time up to %v", s.Timeout, MaxTimeout)
	case s.Grace < 0 || s.Grace > MaxGrace:
		return fmt.Errorf("grace is %v: use a time from 0 to %v", s.Grace, MaxGrace)
	case s.OutputLimit <= 0:
		return fmt.Errorf("output_limit is %d: use at least 1 byte", s.OutputLimit)
	case s.FileSize < 0:
		return fmt.Errorf("file_size is %d: use a number of bytes, or 0 for no limit", s.FileSize)
	case s.Slot < 1 || s.Slot > MaxSlot:
		return fmt.Errorf("slot is %d: use 1 to %d", s.Slot, MaxSlot)
	}
	return s.checkText()
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkText refuses texts that execve(2) can't take.
func (s *Spec) checkText() error {
	for i, arg := range s.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("args[%d] has a NUL byte, which no argument can have", i)
		}
	}
	if strings.ContainsRune(s.Directory, 0) {
		return errors.New("directory has a NUL byte, which no path can have")
	}
	for name, value := range s.Env {
		if !envName.MatchString(name) {
			return fmt.Errorf("env has the name %q: use letters, digits and _, and no digit first", name)
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("env %s has a NUL byte, which no variable can have", name)
		}
	}
	return nil
}
