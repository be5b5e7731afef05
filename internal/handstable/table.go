// Package handstable reads the table [hands] of the files of remotes and workers: the session of codex-runner in which
// codex's commands are executed.
package handstable

import (
	"strings"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/settingsfile"
)

// Hands is the valid table. The limits have the names that codex-runner gives them.
type Hands struct {
	// URL is the exec-server on another host, with the token in TokenFile, and no other key; empty: codex-runner of
	// this machine.
	URL       string
	TokenFile string
	CAFile    string // the certificate authorities of the URL; empty: the system's

	Repo  string // a directory or a URL
	Ref   string // empty: of HEAD
	SetUp string // the file of a set-up; empty: the repository's own

	Timeout  time.Duration // of one exec-server
	CPUs     float64       // 0: codex-runner's default, as for the limits that follow
	Memory   int64         // bytes
	Tasks    int64
	FileSize int64 // bytes
	Disk     int64 // bytes
}

// Group is the group of users that may ask codex-runner for sessions.
const Group = "codex-runner"

// Timeout is the longest time of a command that codex-runner takes, and the default of hands.
const Timeout = 24 * time.Hour

// Raw is the table as it is written.
type Raw struct {
	Runner   bool                  `toml:"runner"`
	URL      string                `toml:"url"`
	Token    string                `toml:"token_file"`
	CAFile   string                `toml:"ca_file"`
	Repo     string                `toml:"repo"`
	Ref      string                `toml:"ref"`
	SetUp    string                `toml:"setup"`
	Timeout  settingsfile.Duration `toml:"timeout"`
	CPUs     float64               `toml:"cpus"`
	Memory   string                `toml:"memory"`
	Tasks    int64                 `toml:"tasks"`
	FileSize string                `toml:"file_size"`
	Disk     string                `toml:"disk"`
}

// Hands returns the settings of the table, without the sizes in which Check finds a mistake; nil: there is no table.
func (r *Raw) Hands() *Hands {
	if r == nil {
		return nil
	}
	h := &Hands{URL: r.URL, TokenFile: r.Token, CAFile: r.CAFile, Repo: r.Repo, Ref: r.Ref, SetUp: r.SetUp,
		Timeout: r.Timeout.Duration, CPUs: r.CPUs, Tasks: r.Tasks}
	if h.Timeout == 0 {
		h.Timeout = Timeout
	}
	_ = cli.Bytes(&h.Memory).Set(r.Memory) // Check reports the mistakes
	_ = cli.Bytes(&h.FileSize).Set(r.FileSize)
	_ = cli.Bytes(&h.Disk).Set(r.Disk)
	return h
}

// RepoDirectory is the directory that the commits are sent from; empty: codex-runner fetches a URL.
func (h *Hands) RepoDirectory() string {
	if h == nil || !strings.HasPrefix(h.Repo, "/") {
		return ""
	}
	return h.Repo
}
