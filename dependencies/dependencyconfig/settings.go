// Package dependencyconfig reads the files of dependencies, /etc/codex-proxy/dependencies/NAME.toml, and makes of each
// the drop-in of its unit, codex-dependency@NAME.service. The files are the only truth: systemd runs the generator
// (systemd.generator(7)) at boot and at every daemon-reload.
package dependencyconfig

import (
	"path/filepath"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/strict"
	"codex-proxy/units"
)

// files are the files of dependencies.
var files = settingsfile.Kind{Many: "dependencies", Valid: units.ValidDependencyName}

// Names returns the names of all dependencies with a file in dir, sorted. A directory that does not exist has none.
// Files with a name that no dependency can have do not count: a unit cannot have it either.
func Names(dir string) ([]string, error) { return files.Names(dir) }

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
	Description  string                `toml:"description"`
	Command      []string              `toml:"command"`
	Prepare      []string              `toml:"prepare"`
	Environment  map[string]string     `toml:"environment"`
	Credentials  map[string]string     `toml:"credentials"`
	User         string                `toml:"user"`
	Directories  []string              `toml:"directories"`
	Network      string                `toml:"network"`
	Ports        []int                 `toml:"ports"`
	Lock         string                `toml:"lock"`
	StartTimeout settingsfile.Duration `toml:"start_timeout"`
	StopTimeout  settingsfile.Duration `toml:"stop_timeout"`
	StopSignal   string                `toml:"stop_signal"`
	Probe        rawProbe              `toml:"probe"`
}

type rawProbe struct {
	Check    string                `toml:"check"`
	Ready    string                `toml:"ready"`
	Interval settingsfile.Duration `toml:"interval"`
	Timeout  settingsfile.Duration `toml:"timeout"`
	Failures int                   `toml:"failures"`
	Passes   int                   `toml:"passes"`
	Status   []int                 `toml:"status"`
	Body     string                `toml:"body"`
	CA       string                `toml:"ca"`
}

func defaults() raw {
	return raw{
		Network: string(Loopback), StartTimeout: settingsfile.Lasting(30 * time.Second),
		StopTimeout: settingsfile.Lasting(10 * time.Second), StopSignal: "SIGTERM",
		Probe: rawProbe{Interval: settingsfile.Lasting(5 * time.Second), Timeout: settingsfile.Lasting(time.Second),
			Failures: 3, Passes: 1},
	}
}

// Load reads the file of a dependency, which has the name of the file. The error is a *strict.Error, or joins several
// of them: each names the file, the line, the key and the remedy.
func Load(file string) (*Settings, error) {
	text, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, text)
}

// Parse is Load of a text that is the file's, or will be.
func Parse(file string, text []byte) (*Settings, error) {
	r := defaults()
	name, err := files.Decode(file, text, &r)
	if err != nil {
		return nil, err
	}
	s, err := r.settings(name)
	if err != nil {
		return nil, settingsfile.Located(err, file, strict.LinesOf(text))
	}
	s.File = file
	return s, nil
}

// StateDir is the directory that stands for {state}.
func StateDir(name string) string { return filepath.Join(paths.DependencyStates, name) }

// RuntimeDir is the directory that stands for {runtime}.
func RuntimeDir(name string) string { return filepath.Join(paths.DependencyRuntimeDirs, name) }

// CredentialsDir is the directory that stands for {credentials} (systemd.exec(5), LoadCredential=).
func CredentialsDir(name string) string {
	return filepath.Join("/run/credentials", units.Dependency(name))
}
