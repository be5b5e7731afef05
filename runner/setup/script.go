// Package setup decides how a repository is made ready for its commands: by its own script in .codex-runner.toml, or by
// the manifests of its packages.
//
// A script runs in the workspace of a session, before its first command, and again before a later one when its key has
// changed: the script, the content of its inputs, the versions of its tools or the architecture.
package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/strict"
	"codex-proxy/runner/artifact"
)

// File is where a repository has a script of its own.
const File = ".codex-runner.toml"

// Own is the name of a repository's own script.
const Own = "own"

// Script makes a checkout ready.
type Script struct {
	// Name is Own, the way's name, or "several" for more than one way.
	Name string `json:"name"`
	// Run is a script for sh, which ends at the first command that fails.
	Run string `json:"run"`
	// Test is a script that runs once after Run, without the network, and may fail: the results that it leaves save the
	// commands of sessions time.
	Test string `json:"test,omitempty"`
	// Inputs are patterns of the files that decide whether the script runs again, as artifact.Pattern has them.
	Inputs []string `json:"inputs,omitempty"`
	// Env has variables of the script and of every command.
	Env map[string]string `json:"env,omitempty"`
	// Path has directories that the script and every command search first for programs: relative to the checkout, or
	// below HOME if they begin with "~/".
	Path []string `json:"path,omitempty"`
	// Dir is where the script runs, relative to the checkout.
	Dir string `json:"dir,omitempty"`
	// Needs are the programs that the host must have; their versions are part of the key, as are the versions of Tools.
	Needs []string `json:"needs,omitempty"`
	Tools []string `json:"tools,omitempty"`
}

// raw is a file with a script as it is written.
type raw struct {
	Run    string            `toml:"run"`
	Test   string            `toml:"test"`
	Inputs []string          `toml:"inputs"`
	Env    map[string]string `toml:"env"`
	Path   []string          `toml:"path"`
	Dir    string            `toml:"dir"`
}

// The bounds of a file with a script, in bytes.
const (
	maxFile = 256 << 10
	// MaxGiven is that of a set-up that a session gives: the specification of each command has it.
	MaxGiven = 64 << 10
)

// Read returns the script that a repository has in File, or nil if it has none.
func Read(repository fs.FS) (*Script, error) {
	text, err := readBounded(repository, File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(File, text)
}

// Parse reads a script from the text of a TOML file. Its errors name the file, the line and the remedy.
func Parse(file string, text []byte) (*Script, error) {
	var r raw
	if err := strict.Decode(file, text, &r); err != nil {
		return nil, err
	}
	if key, err := r.check(); err != nil {
		line, _ := strict.LinesOf(text).Find(key)
		return nil, &strict.Error{File: file, Line: line, Text: err.Error()}
	}
	return &Script{Name: Own, Run: r.Run, Test: r.Test, Inputs: r.Inputs, Env: r.Env, Path: r.Path, Dir: r.Dir,
		Tools: known}, nil
}

// known are the tools of a repository's own script, which names none.
var known = []string{"cargo", "cc", "go", "java", "node", "python3", "ruby", "uv"}

// The bounds of a script.
const (
	maxInputs = 64
	maxEnv    = 64
	maxPath   = 16
)

// variable is the name of a variable that a shell can have.
var variable = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check returns the key of the first fault.
func (r raw) check() (key string, err error) {
	switch {
	case strings.TrimSpace(r.Run) == "":
		return "run", errors.New("run is empty: name the commands that make the repository ready, " +
			"such as run = \"npm ci\"")
	case len(r.Inputs) > maxInputs:
		return "inputs", fmt.Errorf("inputs has %d patterns: at most %d can be, and ** is any number of directories",
			len(r.Inputs), maxInputs)
	case len(r.Env) > maxEnv:
		return "env", fmt.Errorf("env has %d variables: at most %d can be", len(r.Env), maxEnv)
	case len(r.Path) > maxPath:
		return "path", fmt.Errorf("path has %d directories: at most %d can be", len(r.Path), maxPath)
	case r.Dir != "" && !fs.ValidPath(r.Dir):
		return "dir", fmt.Errorf("dir is %.60q: use a directory of the repository in its shortest form, such as \"web\"",
			r.Dir)
	}
	for _, p := range r.Inputs {
		if _, err := artifact.Parse(p); err != nil {
			return "inputs", fmt.Errorf("inputs: %w", err)
		}
	}
	for name := range r.Env {
		if !variable.MatchString(name) || slices.Contains(reserved, name) {
			return "env", fmt.Errorf("env: %.60q cannot be set here: use another name, and path for PATH", name)
		}
	}
	for _, dir := range r.Path {
		if !fs.ValidPath(strings.TrimPrefix(dir, "~/")) {
			return "path", fmt.Errorf("path: %.60q is no directory of the repository or of HOME: "+
				"use a form such as \"node_modules/.bin\" or \"~/.local/bin\"", dir)
		}
	}
	return "", nil
}

// reserved are the variables that the sandbox sets.
var reserved = []string{"HOME", "PATH", "TMPDIR", "USER", "LOGNAME", "SHELL", "CREDENTIALS_DIRECTORY"}

// SearchPath returns Path as absolute directories.
func (s *Script) SearchPath(checkout, home string) (dirs []string) {
	for _, dir := range s.Path {
		if below, ok := strings.CutPrefix(dir, "~/"); ok {
			dirs = append(dirs, path.Join(home, below))
		} else {
			dirs = append(dirs, path.Join(checkout, dir))
		}
	}
	return dirs
}
