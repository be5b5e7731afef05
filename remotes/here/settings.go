// Package here keeps the own codex of a user in a unit: its settings, its record, and its link in the user's home.
package here

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/strict"
)

// Settings are the settings of a user's own codex.
type Settings struct {
	// Environment are names of variables, and patterns such as LC_*, that a thread gets from the shell of its client.
	Environment   []string
	CodexPath     string        // empty: the installed codex
	IdleStop      time.Duration // without clients and turns
	ContinueLimit int           // how often one turn goes on after a cut
}

// Default is the list of variables that need no setting: none of them is a secret by its purpose.
var Default = []string{
	"PATH", "SSH_AUTH_SOCK", "GPG_TTY", "LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "TZ",
	"EDITOR", "VISUAL", "PAGER",
	"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_*", "DBUS_SESSION_BUS_ADDRESS",
	"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "NVM_BIN", "NODE_ENV",
	"JAVA_HOME", "GOPATH", "GOROOT", "GOFLAGS", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "DIRENV_DIR",
}

const (
	defaultIdleStop      = 15 * time.Minute
	defaultContinueLimit = 3
	mostContinues        = 100
	mostVariables        = 256
)

// raw is a file as it is written.
type raw struct {
	Environment   []string `toml:"environment"`
	CodexPath     string   `toml:"codex_path"`
	IdleStop      string   `toml:"idle_stop"`
	ContinueLimit *int     `toml:"continue_limit"`
}

// Load reads the files that exist, the later ones before the earlier ones. The list of variables has the variables
// of all files. An error is a *strict.Error, or joins several.
func Load(files ...string) (*Settings, error) {
	s := &Settings{Environment: slices.Clone(Default), IdleStop: defaultIdleStop, ContinueLimit: defaultContinueLimit}
	for _, file := range files {
		text, err := read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &strict.Error{File: file, Text: fmt.Sprintf("cannot read the file: %v", err)}
		}
		if err := s.add(file, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// read opens no device and no pipe, which would block a start.
func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > settingsfile.MaxSize {
		return nil, fmt.Errorf("it is longer than %d KiB", settingsfile.MaxSize>>10)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, settingsfile.MaxSize))
}

// pattern is the name of a variable, perhaps with * at its end.
var pattern = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)

func (s *Settings) add(file string, text []byte) error {
	var r raw
	if err := strict.Decode(file, text, &r); err != nil {
		return err
	}
	lines := strict.LinesOf(text)
	fault := func(key, format string, args ...any) error {
		line, _ := lines.Find(key)
		return &strict.Error{File: file, Line: line, Text: key + ": " + fmt.Sprintf(format, args...)}
	}
	for _, name := range r.Environment {
		if !pattern.MatchString(name) {
			return fault("environment",
				"%q is no name of a variable: write a name such as AWS_PROFILE, or a beginning such as MISE_*", name)
		}
	}
	if s.Environment = append(s.Environment, r.Environment...); len(s.Environment) > mostVariables {
		return fault("environment", "more than %d names: use a beginning with *", mostVariables)
	}
	if r.CodexPath != "" && !path.IsAbs(r.CodexPath) {
		return fault("codex_path", "%q is not an absolute path", r.CodexPath)
	}
	s.CodexPath = cmp.Or(r.CodexPath, s.CodexPath)
	if r.IdleStop != "" {
		d, err := time.ParseDuration(r.IdleStop)
		if err != nil || d < time.Second {
			return fault("idle_stop", "%q is no time of a second or more: write one such as \"15m\"", r.IdleStop)
		}
		s.IdleStop = d
	}
	if r.ContinueLimit != nil {
		if *r.ContinueLimit < 1 || *r.ContinueLimit > mostContinues {
			return fault("continue_limit", "%d is not between 1 and %d", *r.ContinueLimit, mostContinues)
		}
		s.ContinueLimit = *r.ContinueLimit
	}
	return nil
}

// Passes reports whether a thread gets the variable called name.
func (s *Settings) Passes(name string) bool {
	return slices.ContainsFunc(s.Environment, func(p string) bool {
		beginning, open := strings.CutSuffix(p, "*")
		return name == p || open && strings.HasPrefix(name, beginning)
	})
}
