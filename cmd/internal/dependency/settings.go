// Package dependency reads the files of dependencies, /etc/codex-proxy/dependencies/NAME.toml, and makes of each the
// drop-in of its unit, codex-dependency@NAME.service. The files are the only truth: systemd runs the generator
// (systemd.generator(7)) at boot and at every daemon-reload.
package dependency

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/internal/strict"
	"codex-proxy/units"
)

// maxFile bounds a file, in bytes.
const maxFile = 64 << 10

// Settings is the valid file of a dependency. Its placeholders are replaced. Each field is the key of its name;
// /usr/share/codex-proxy/dependencies explains the keys.
type Settings struct {
	Name         string // of the dependency: the file's name without .toml
	File         string
	Description  string
	Command      []string
	Prepare      []string // empty: none
	Environment  map[string]string
	Credentials  map[string]string // the path of each credential
	User         string            // empty: a user of its own
	Directories  []string
	Network      Network
	Ports        []int
	Lock         string // the path of the lock file
	StartTimeout time.Duration
	StopTimeout  time.Duration
	StopSignal   string
	Probe        Probe
}

// Probe is the table [probe].
type Probe struct {
	Check    string // KIND:TARGET
	Ready    string // empty: none
	Interval time.Duration
	Timeout  time.Duration
	Failures int
	Passes   int
	Status   []int
	Body     string
	CA       string
}

// Watchdog is the time without a pass of the probe after which systemd kills the dependency: WatchdogSec=.
func (p Probe) Watchdog() time.Duration { return p.Interval * time.Duration(p.Failures) }

// Network is the part of the network that a dependency reaches, and is reached from.
type Network string

// The networks.
const (
	NoNetwork Network = "none"     // a network namespace of its own
	Loopback  Network = "loopback" // this machine
	AllOfIt   Network = "all"
)

// raw is the file as it is written.
type raw struct {
	Description  string            `toml:"description"`
	Command      []string          `toml:"command"`
	Prepare      []string          `toml:"prepare"`
	Environment  map[string]string `toml:"environment"`
	Credentials  map[string]string `toml:"credentials"`
	User         string            `toml:"user"`
	Directories  []string          `toml:"directories"`
	Network      string            `toml:"network"`
	Ports        []int             `toml:"ports"`
	Lock         string            `toml:"lock"`
	StartTimeout duration          `toml:"start_timeout"`
	StopTimeout  duration          `toml:"stop_timeout"`
	StopSignal   string            `toml:"stop_signal"`
	Probe        rawProbe          `toml:"probe"`
}

type rawProbe struct {
	Check    string   `toml:"check"`
	Ready    string   `toml:"ready"`
	Interval duration `toml:"interval"`
	Timeout  duration `toml:"timeout"`
	Failures int      `toml:"failures"`
	Passes   int      `toml:"passes"`
	Status   []int    `toml:"status"`
	Body     string   `toml:"body"`
	CA       string   `toml:"ca"`
}

func defaults() raw {
	return raw{
		Network: string(Loopback), StartTimeout: duration{30 * time.Second}, StopTimeout: duration{10 * time.Second},
		StopSignal: "SIGTERM",
		Probe: rawProbe{Interval: duration{5 * time.Second}, Timeout: duration{time.Second}, Failures: 3,
			Passes: 1},
	}
}

// Load reads the file of a dependency, which has the name of the file. The error is a *strict.Error, or joins several
// of them: each names the file, the line, the key and the remedy.
func Load(file string) (*Settings, error) {
	text, err := read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &strict.Error{File: file, Text: "there is no such file: `codex-proxy dependencies add` makes one"}
	case err != nil:
		return nil, &strict.Error{File: file, Text: fmt.Sprintf("cannot read the file: %v", reason(err))}
	}
	return Parse(file, text)
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
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Parse is Load of a text that is the file's, or will be.
func Parse(file string, text []byte) (*Settings, error) {
	name, isTOML := strings.CutSuffix(filepath.Base(file), ".toml")
	if err := units.ValidDependencyName(name); err != nil || !isTOML {
		return nil, &strict.Error{File: file, Text: cmp.Or(err, errors.New("must be named NAME.toml")).Error()}
	}
	if len(text) > maxFile {
		return nil, &strict.Error{File: file, Text: fmt.Sprintf("is longer than %d KiB", maxFile>>10)}
	}
	r := defaults()
	if err := strict.Decode(file, text, &r); err != nil {
		return nil, err
	}
	s, err := r.settings(name)
	var m *misfit
	if errors.As(err, &m) {
		line, _ := strict.LinesOf(text).Find(m.key)
		return nil, &strict.Error{File: file, Line: line, Text: m.Error()}
	}
	s.File = file
	return s, err
}

// StateDir is the directory that stands for {state}.
func StateDir(name string) string { return filepath.Join(paths.DependencyStates, name) }

// RuntimeDir is the directory that stands for {runtime}.
func RuntimeDir(name string) string { return filepath.Join(paths.DependencyRuntimeDirs, name) }

// CredentialsDir is the directory that stands for {credentials} (systemd.exec(5), LoadCredential=).
func CredentialsDir(name string) string {
	return filepath.Join("/run/credentials", units.Dependency(name))
}
