package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex-proxy/runner/repositories"
	"codex-proxy/runner/workspace"
)

// rawRepositories is the table of mirrors.
type rawRepositories struct {
	MaxCount int      `toml:"max_count"`
	MaxBytes size     `toml:"max_bytes"`
	Size     size     `toml:"size"`
	Timeout  duration `toml:"timeout"`
}

// credential is an element of [[credentials]].
type credential struct {
	URL            string   `toml:"url"`
	GitCredentials string   `toml:"git_credentials"`
	SSHKey         string   `toml:"ssh_key"`
	SSHKnownHosts  string   `toml:"ssh_known_hosts"`
	Users          []string `toml:"users"`
}

const (
	mostRepositories = 10_000
	longestFetch     = time.Hour // TimeoutStartSec= of the unit leaves time for submodules
)

// runner returns the checked settings of mirrors.
func (r rawRepositories) runner(credentials []credential) (repositories.Config, error) {
	s := repositories.Config{Count: r.MaxCount, Disk: r.MaxBytes.bytes, Size: r.Size.bytes, Timeout: r.Timeout.Duration}
	switch {
	case s.Count < 1 || s.Count > mostRepositories:
		return s, fmt.Errorf("repositories.max_count is %d: use 1 to %d", s.Count, mostRepositories)
	case s.Size < 1 || s.Disk < s.Size:
		return s, fmt.Errorf("repositories.max_bytes is %d and repositories.size %d: use at least 1 for size, and at least as "+
			"much for max_bytes", s.Disk, s.Size)
	case s.Timeout <= 0 || s.Timeout > longestFetch:
		return s, fmt.Errorf("repositories.timeout is %v: use a time above 0 and up to %v", s.Timeout, longestFetch)
	}
	for i, c := range credentials {
		checked, err := c.runner()
		if err != nil {
			return s, fmt.Errorf("[[credentials]] %d: %w", i+1, err)
		}
		s.Credentials = append(s.Credentials, checked)
	}
	return s, nil
}

// runner returns the checked credential. Its files are read now, so that a mistake is found at the start, and again for
// each fetch, so that a new token needs no restart.
func (c credential) runner() (repositories.Credential, error) {
	checked := repositories.Credential{URL: c.URL, Users: c.Users, Files: map[string]string{}}
	if err := workspace.CheckURL(c.URL + "x"); err != nil || strings.HasPrefix(c.URL, "file:") {
		return checked, fmt.Errorf("url is %q: begin with https://HOST/ or ssh://HOST/, or write USER@HOST: (with the colon)", c.URL)
	}
	for name, file := range map[string]string{
		workspace.GitCredentials: c.GitCredentials, workspace.SSHKey: c.SSHKey, workspace.SSHKnownHosts: c.SSHKnownHosts,
	} {
		if file == "" {
			continue
		}
		if !filepath.IsAbs(file) {
			return checked, fmt.Errorf("the file %q of %s has no absolute path: write one", file, c.URL)
		}
		if _, err := repositories.ReadSecret(file); err != nil {
			return checked, fmt.Errorf("cannot read the credential of %s: %w", c.URL, err)
		}
		checked.Files[name] = file
	}
	switch {
	case c.GitCredentials == "" && c.SSHKey == "":
		return checked, fmt.Errorf("%s has no credential: name git_credentials or ssh_key", c.URL)
	case c.SSHKey != "" && c.SSHKnownHosts == "":
		return checked, fmt.Errorf("%s has an ssh_key without ssh_known_hosts: name the file that `ssh-keyscan HOST` makes", c.URL)
	case slices.Contains(c.Users, ""):
		return checked, fmt.Errorf("users of %s has an empty name: leave it out", c.URL)
	}
	return checked, nil
}
