// Package config reads runner.toml, the settings of codex-runner: a strict TOML file becomes a Config that has been
// checked, or an error that names the file, the line, the key and the remedy.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/internal/strict"
	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/repositories"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
)

// Path is where the packages install the file.
const Path = paths.Settings

// Config has the checked settings.
type Config struct {
	MaxSessions  int
	MaxQueued    int
	Workspaces   int
	IdleTimeout  time.Duration
	MaxIdle      time.Duration // that a session may ask for
	Retention    time.Duration
	Admins       []string // user names
	Network      bool     // sessions may have it
	LogLevel     slog.Level
	Share        queue.Share // of each user
	Connections  int         // of each user
	Limits       runner.Limits
	Artifacts    artifact.Limits // of each command
	Hooks        *session.Hooks  // nil: no hooks
	Sandbox      sandbox.Settings
	Environments environments.Config
	Repositories repositories.Config
	// WorkspaceDisk bounds the bytes of the workspaces that no session leases.
	WorkspaceDisk int64
}

// raw is the file as it is written. packaging/runner/runner.toml explains each key.
type raw struct {
	MaxSessions  int              `toml:"max_sessions"`
	MaxQueued    int              `toml:"max_queued"`
	Workspaces   int              `toml:"workspaces"`
	IdleTimeout  duration         `toml:"idle_timeout"`
	MaxIdle      duration         `toml:"max_idle_timeout"`
	Retention    duration         `toml:"retention"`
	Admins       []string         `toml:"admins"`
	Network      bool             `toml:"network"`
	LogLevel     level            `toml:"log_level"`
	User         user             `toml:"user"`
	Default      limits           `toml:"default"`
	Maximum      limits           `toml:"maximum"`
	Artifacts    artifacts        `toml:"artifacts"`
	Hooks        hooks            `toml:"hooks"`
	Sandbox      sandbox.Settings `toml:"sandbox"`
	Environments rawEnvironments  `toml:"environments"`
	Repositories rawRepositories  `toml:"repositories"`
	Credentials  []credential     `toml:"credentials"`

	WorkspaceBytes size `toml:"workspace_bytes"`
}

type user struct {
	MaxSessions    int  `toml:"max_sessions"`
	MaxQueued      int  `toml:"max_queued"`
	MaxConnections int  `toml:"max_connections"`
	StdinBytes     size `toml:"stdin_bytes"`
}

// share returns the bounds of a user: by default it leaves others a place, and half of the queue.
func (u user) share(sessions, queued int) queue.Share {
	s := queue.Share{Sessions: u.MaxSessions, Queued: u.MaxQueued, Stdin: u.StdinBytes.bytes}
	if s.Sessions == 0 {
		s.Sessions = max(1, sessions-1)
	}
	if s.Queued == 0 {
		s.Queued = max(1, queued/2)
	}
	return s
}

type artifacts struct {
	Bytes size `toml:"bytes"`
	Count int  `toml:"count"`
}

type hooks struct {
	Before  []string `toml:"before"`
	After   []string `toml:"after"`
	Timeout duration `toml:"timeout"`
}

func (h hooks) session() *session.Hooks {
	if len(h.Before)+len(h.After) == 0 {
		return nil
	}
	return &session.Hooks{Before: h.Before, After: h.After, Timeout: h.Timeout.Duration}
}

func (h hooks) check() error {
	for name, args := range map[string][]string{"before": h.Before, "after": h.After} {
		if len(args) > 0 && !filepath.IsAbs(args[0]) {
			return fmt.Errorf("hooks.%s begins with %q: use the absolute path of a program", name, args[0])
		}
	}
	if t := h.Timeout.Duration; t <= 0 || t > session.MaxHook {
		return fmt.Errorf("hooks.timeout is %v: use a time up to %v", t, session.MaxHook)
	}
	return nil
}

type rawEnvironments struct {
	Shared   bool     `toml:"shared"`
	MaxBytes size     `toml:"max_bytes"`
	Timeout  duration `toml:"timeout"`
	Network  builds   `toml:"network"`
	Store    string   `toml:"store"`
}

type limits struct {
	Timeout  duration `toml:"timeout"`
	Grace    duration `toml:"grace"`
	CPUs     float64  `toml:"cpus"`
	Memory   size     `toml:"memory"`
	Tasks    int64    `toml:"tasks"`
	Output   size     `toml:"output"`
	FileSize size     `toml:"file_size"`
	Disk     size     `toml:"disk"`
}

func defaults() raw {
	return raw{
		MaxSessions: 8, MaxQueued: 1000, Workspaces: 32,
		IdleTimeout: duration{30 * time.Minute}, MaxIdle: duration{30 * 24 * time.Hour},
		Retention: duration{7 * 24 * time.Hour}, Admins: []string{},
		Network: true,
		User:    user{MaxConnections: 256, StdinBytes: size{4 << 30}},
		Default: limits{
			Timeout: duration{30 * time.Minute}, Grace: duration{5 * time.Second},
			Memory: size{2 << 30}, Tasks: 1024, Output: size{64 << 20}, Disk: size{4 << 30},
		},
		Maximum: limits{Timeout: duration{session.MaxTimeout}, Grace: duration{session.MaxGrace},
			Output: size{1 << 30}},
		Artifacts: artifacts{Bytes: size{256 << 20}, Count: 1000},
		Sandbox:   sandbox.Settings{Path: []string{}, Env: map[string]string{}, Toolchains: []string{}},
		Hooks:     hooks{Before: []string{}, After: []string{}, Timeout: duration{time.Minute}},
		Environments: rawEnvironments{
			MaxBytes: size{20 << 30}, Timeout: duration{30 * time.Minute}, Network: builds{environments.BuildsForAll},
		},
		Repositories: rawRepositories{MaxCount: 64, MaxBytes: size{20 << 30}, Size: size{4 << 30},
			Timeout: duration{10 * time.Minute}},
		WorkspaceBytes: size{20 << 30},
	}
}

// Load reads the file at path. A file that is not there has all defaults.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the settings: %w", err)
	}
	r := defaults()
	if err := strict.Decode(path, text, &r); err != nil {
		return nil, err
	}
	c := &Config{
		MaxSessions: r.MaxSessions, MaxQueued: r.MaxQueued, Workspaces: r.Workspaces, IdleTimeout: r.IdleTimeout.Duration,
		MaxIdle:   r.MaxIdle.Duration,
		Retention: r.Retention.Duration, Admins: r.Admins, Network: r.Network, LogLevel: r.LogLevel.Level,
		Limits:        runner.Limits{Default: r.Default.wire(), Maximum: r.Maximum.wire()},
		Share:         r.User.share(r.MaxSessions, r.MaxQueued),
		Connections:   r.User.MaxConnections,
		WorkspaceDisk: r.WorkspaceBytes.bytes,
		Hooks:         r.Hooks.session(),
		Sandbox:       r.Sandbox,
		Artifacts:     artifact.Limits{Bytes: r.Artifacts.Bytes.bytes, Count: r.Artifacts.Count},
		Environments: environments.Config{
			Shared: r.Environments.Shared, MaxBytes: r.Environments.MaxBytes.bytes, Timeout: r.Environments.Timeout.Duration,
			Network: r.Environments.Network.BuildNetwork, Store: r.Environments.Store,
			Sandbox: r.Sandbox.Given(),
		},
	}
	err = cmp.Or(c.check(), r.Hooks.check(), c.Sandbox.Check())
	if err == nil {
		c.Repositories, err = r.Repositories.runner(r.Credentials)
		c.Repositories.Env = r.Sandbox.Env
	}
	if err != nil {
		return nil, misfit(path, text, err)
	}
	return c, nil
}

// misfit is an error of check, which begins with the key, with the place of that key.
func misfit(path string, text []byte, err error) error {
	key, _, _ := strings.Cut(err.Error(), " ")
	line, _ := strict.LinesOf(text).Find(strings.Trim(key, "[]"))
	return &strict.Error{File: path, Line: line, Text: err.Error()}
}

func (l limits) wire() wire.Limits {
	return wire.Limits{
		Timeout: wire.Duration(l.Timeout.Duration), Grace: wire.Duration(l.Grace.Duration), CPUs: l.CPUs,
		Memory: l.Memory.bytes, Tasks: l.Tasks, Output: l.Output.bytes, FileSize: l.FileSize.bytes,
		Disk: l.Disk.bytes,
	}
}

// bounds of the numbers of the file.
const (
	mostSessions = 1000
	mostQueued   = 100_000
	mostKept     = 100_000
	// mostConnections is below LimitNOFILE= of codex-runner.service.
	mostConnections = 20_000
)

// check returns an error that begins with the key.
func (c *Config) check() error {
	switch d := c.Limits.Default; {
	case c.MaxSessions < 1 || c.MaxSessions > mostSessions:
		return fmt.Errorf("max_sessions is %d: use 1 to %d", c.MaxSessions, mostSessions)
	case c.MaxQueued < 1 || c.MaxQueued > mostQueued:
		return fmt.Errorf("max_queued is %d: use 1 to %d", c.MaxQueued, mostQueued)
	case c.Workspaces < c.MaxSessions || c.Workspaces > session.MaxSlot:
		return fmt.Errorf("workspaces is %d: use max_sessions (%d) to %d", c.Workspaces, c.MaxSessions, session.MaxSlot)
	case c.Share.Sessions < 1 || c.Share.Sessions > c.MaxSessions:
		return fmt.Errorf("user.max_sessions is %d: use 1 to max_sessions (%d), or 0 for all places but one",
			c.Share.Sessions, c.MaxSessions)
	case c.Share.Queued < 1 || c.Share.Queued > c.MaxQueued:
		return fmt.Errorf("user.max_queued is %d: use 1 to max_queued (%d), or 0 for half of it", c.Share.Queued,
			c.MaxQueued)
	case c.Connections < 1 || c.Connections > mostConnections:
		return fmt.Errorf("user.max_connections is %d: use 1 to %d", c.Connections, mostConnections)
	case c.IdleTimeout <= 0:
		return fmt.Errorf("idle_timeout is %v: use a time above 0", c.IdleTimeout)
	case c.MaxIdle <= 0:
		return fmt.Errorf("max_idle_timeout is %v: use a time above 0", c.MaxIdle)
	case c.Retention <= 0:
		return fmt.Errorf("retention is %v: use a time above 0", c.Retention)
	case c.Artifacts.Count < 0 || c.Artifacts.Count > mostKept:
		return fmt.Errorf("artifacts.count is %d: use 0 to %d", c.Artifacts.Count, mostKept)
	case d.Timeout <= 0 || d.Output <= 0:
		return errors.New("default.timeout and default.output must be above 0: every command has these limits")
	}
	if err := c.Limits.Check(); err != nil {
		return fmt.Errorf("[default]: %w", err)
	}
	return checkEnvironments(c.Environments)
}

// hidden are the directories of the host that builds and sessions do not see.
var hidden = []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp", "/dev/shm", paths.StateDir, paths.Run}

func checkEnvironments(e environments.Config) error {
	switch {
	case e.MaxBytes <= 0:
		return errors.New("environments.max_bytes is 0: use a size above 0")
	case e.Timeout <= 0 || e.Timeout > session.MaxWait:
		return fmt.Errorf("environments.timeout is %v: use a time up to %v", e.Timeout, session.MaxWait)
	case e.Store != "" && (!filepath.IsAbs(e.Store) || filepath.Clean(e.Store) != e.Store):
		return fmt.Errorf("environments.store is %q: use an absolute path in its shortest form", e.Store)
	}
	for _, dir := range hidden {
		if e.Store == dir || strings.HasPrefix(e.Store, dir+"/") {
			return fmt.Errorf("environments.store is %q: sessions and builds do not see files below %s: use another directory, "+
				"such as /srv/packages", e.Store, dir)
		}
	}
	return nil
}
