// Package sandbox has the settings for the sandbox of every command, set-up and build of an environment:
// directories of programs, variables, and toolchains. A toolchain is a directory of the host that the sandbox shows
// read-only, such as a rustup in a home, which the sandbox hides otherwise.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/runner/paths"
)

// Settings is the table [sandbox] of runner.toml.
type Settings struct {
	Path           []string          `toml:"path"`
	Env            map[string]string `toml:"env"`
	Toolchains     []string          `toml:"toolchains"`
	UserToolchains bool              `toml:"user_toolchains"`
}

// Given is the part of the settings that the daemon passes on to units.
type Given struct {
	Path []string          `json:"path,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}

// Given returns nil if there is nothing to pass on.
func (s Settings) Given() *Given {
	if len(s.Path)+len(s.Env) == 0 {
		return nil
	}
	return &Given{s.Path, s.Env}
}

// The bounds of the table: the specification of a command has the variables, and PATH the directories.
const (
	mostDirectories = 64
	mostVariables   = 256
	mostBytes       = 64 << 10
)

// Check returns an error that begins with the key.
func (s Settings) Check() error {
	return cmp.Or(s.checkPath(), s.checkEnv(), checkToolchains(s.Toolchains))
}

func (s Settings) checkPath() error {
	if len(s.Path) > mostDirectories {
		return fmt.Errorf("sandbox.path has %d directories: use at most %d", len(s.Path), mostDirectories)
	}
	for _, dir := range s.Path {
		switch {
		case !clean(dir) || strings.Contains(dir, ":"):
			return fmt.Errorf("sandbox.path has %q: use an absolute path in its shortest form, without a colon", dir)
		case beneath(dir, hidden) != "" && beneath(dir, s.Toolchains) == "":
			return fmt.Errorf("sandbox.path has %q: sandboxes hide %s; name the toolchain that it belongs to in "+
				"sandbox.toolchains, which adds its programs to PATH", dir, beneath(dir, hidden))
		}
	}
	return nil
}

// own are the variables that a sandbox sets itself.
var own = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "CREDENTIALS_DIRECTORY"}

var name = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkEnv names no value, which may be secret.
func (s Settings) checkEnv() error {
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		value := s.Env[key]
		size += len(key) + len(value)
		switch {
		case !name.MatchString(key):
			return fmt.Errorf("sandbox.env has the name %q: use letters, digits and _, and no digit first", key)
		case key == "PATH":
			return errors.New("sandbox.env has PATH: name the directories in sandbox.path")
		case slices.Contains(own, key):
			return fmt.Errorf("sandbox.env has %s, which each sandbox has of its own: leave it out", key)
		case strings.ContainsRune(value, 0):
			return fmt.Errorf("sandbox.env has %s with a NUL byte, which no variable can have: leave it out", key)
		}
	}
	if len(s.Env) > mostVariables || size > mostBytes {
		return fmt.Errorf("sandbox.env has %d variables of %d bytes: use at most %d of %d bytes", len(s.Env), size,
			mostVariables, mostBytes)
	}
	return nil
}

// homes are the directories of homes, which sandboxes hide and toolchains may be in; hidden are all that they hide.
var (
	homes  = []string{"/home", "/root"}
	hidden = append([]string{"/run", "/tmp", "/var/tmp", "/dev", "/proc", "/sys", paths.PrivateStates, paths.StateDir,
		paths.Workspaces}, homes...)
)

func checkToolchains(all []string) error {
	if len(all) > mostDirectories {
		return fmt.Errorf("sandbox.toolchains has %d directories: use at most %d", len(all), mostDirectories)
	}
	for i, dir := range all {
		above := beneath(dir, hidden)
		switch {
		case !clean(dir) || strings.Contains(dir, ":"):
			return fmt.Errorf("sandbox.toolchains has %q: use an absolute path in its shortest form, without a colon",
				dir)
		case dir == "/root" || filepath.Dir(dir) == "/home" || dir == "/home" || dir == "/":
			return fmt.Errorf("sandbox.toolchains has %q, which has more than a toolchain: name the directory of the toolchain "+
				"in it, such as %s", dir, filepath.Join(dir, ".rustup"))
		case above != "" && !slices.Contains(homes, above):
			return fmt.Errorf("sandbox.toolchains has %q: what is below %s is not shown; move the toolchain, for example to /opt",
				dir, above)
		}
		for j, other := range all {
			if i != j && within(dir, other) {
				return fmt.Errorf("sandbox.toolchains has %q, which is in %q: leave one of them out", dir, other)
			}
		}
	}
	return nil
}

// clean reports whether a path is absolute and in its shortest form. A path ends up in PATH, in lines for people and in
// a list of lines.
func clean(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.ContainsAny(path, "\n\x00")
}

// beneath returns the directory of a list that a path is in, or "".
func beneath(path string, list []string) string {
	for _, dir := range list {
		if within(path, dir) {
			return dir
		}
	}
	return ""
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// Home returns the directory of homes that a path is in, which sandboxes hide, or "".
func Home(path string) string { return beneath(path, homes) }
