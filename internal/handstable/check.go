package handstable

import (
	"strings"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

// repoURL matches the URLs of git that codex-runner fetches.
var repoURL = lazyregexp.New(`^([a-z][a-z0-9+.-]*://|[^/:\s]+:)\S+$`)

const (
	// maxRef bounds the name of a branch, tag or commit.
	maxRef = 1024
	// maxTasks is the largest number of processes that codex-runner takes.
	maxTasks = 1 << 20
)

// CheckLimits refuses a ref or a limit that codex-runner does not take.
func (r *Raw) CheckLimits() error {
	switch {
	case len(r.Ref) > maxRef || strings.HasPrefix(r.Ref, "-"):
		return settingsfile.Wrong("hands.ref", "%.40q is not the name of a branch, tag or commit", r.Ref)
	case r.Timeout.Duration < 0 || r.Timeout.Duration > Timeout:
		return settingsfile.Wrong("hands.timeout", "%q must be between 1s and %s", r.Timeout.Duration, Timeout)
	case r.CPUs < 0 || r.CPUs > maxTasks:
		return settingsfile.Wrong("hands.cpus", "%v is not a number of processors such as 0.5 or 2", r.CPUs)
	case r.Tasks < 0 || r.Tasks > maxTasks:
		return settingsfile.Wrong("hands.tasks", "%d must be between 16 and %d", r.Tasks, maxTasks)
	}
	for key, size := range map[string]string{"memory": r.Memory, "file_size": r.FileSize, "disk": r.Disk} {
		var n int64
		if size != "" && cli.Bytes(&n).Set(size) != nil {
			return settingsfile.Wrong("hands."+key, `%q is not a size such as "512M" or "4G"`, size)
		}
	}
	return nil
}

// CheckSources refuses a repository or a set-up that the unit cannot read.
func (r *Raw) CheckSources() error {
	if strings.HasPrefix(r.Repo, "/") {
		if err := settingsfile.CheckDirectory("hands.repo", r.Repo); err != nil {
			return err
		}
	} else if !repoURL.MatchString(r.Repo) {
		return settingsfile.Wrong("hands.repo",
			`%q is neither the absolute path of a repository nor a URL such as "https://host/app.git"`, r.Repo)
	}
	if r.SetUp == "" {
		return nil
	}
	if err := unitfile.CheckPath(r.SetUp); err != nil {
		return settingsfile.Wrong("hands.setup", "%v", err)
	}
	return settingsfile.CheckVisible("hands.setup", r.SetUp)
}
