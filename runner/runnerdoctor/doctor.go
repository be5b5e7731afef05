// Package runnerdoctor checks an installation of codex-runner and reports its faults with their remedies. It changes
// nothing. A user without privileges sees the faults that keep the user from running commands; root sees all faults.
package runnerdoctor

import (
	"context"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/units/survey"
)

// Host is the machine to check. Its functions may be called concurrently, and end with their context.
type Host struct {
	survey.Machine
	Version string // of this program
	Config  string // path of runner.toml
	User    string // the caller

	// Status asks the daemon. It returns the errors of client.Client.
	Status func(ctx context.Context) (wire.Status, error)
	// UID returns the ID of a user.
	UID func(name string) (uint32, error)
	// Group reports whether the caller is in a group by the database of groups, and by the credentials of this process.
	Group func(name string) (listed, effective bool, err error)
	// Git returns an error if there is no git where units look for it.
	Git func() error
	// Missing is the method of environment.Host.
	Missing func(ctx context.Context) map[string]error
	Disk    func(dir string) (size, free uint64, err error) // in bytes
}

// The units that are no templates, and the user of the daemon.
const (
	socketUnit  = "codex-runner.socket"
	serviceUnit = "codex-runner.service"
	sliceUnit   = "codex-sessions.slice"
	account     = "codex-runner"
)

// Instances of templates that need not exist.
const (
	anyID  = "aaaaaaaaaaaaaaaa"
	anyKey = "0000000000000000"             // of a mirror
	anyEnv = "0000000000000000000000000000" // of an environment
)

// templates are the units that the daemon starts.
func templates() []string {
	return []string{
		paths.SessionUnit(anyID), paths.OnlineUnit(anyID), paths.RepositoryUnit(anyKey), paths.EnvironmentUnit(anyEnv),
		paths.OnlineEnvironmentUnit(anyEnv), paths.SweepUnit("session", anyID),
	}
}

// facts has the facts that several checks need.
type facts struct {
	Host
	version   string // of systemd
	busErr    error
	status    wire.Status
	statusErr error
}

// Examine makes every check. It returns within half a minute even if checks hang.
func Examine(ctx context.Context, h Host) checkup.Report {
	limited, cancel := context.WithTimeout(ctx, survey.AnswerLimit)
	defer cancel()
	s := &facts{Host: h}
	s.version, s.busErr = h.Systemd.Version(limited)
	s.status, s.statusErr = h.Status(limited)
	check := func(name string, run func(context.Context, *facts) []checkup.Finding) checkup.Check {
		return checkup.Check{Name: name, Run: func(ctx context.Context) []checkup.Finding { return run(ctx, s) }}
	}
	return checkup.Examine(ctx, []checkup.Check{
		check("systemd", checkSystemd),
		check("units", checkUnits),
		check("config", checkConfig),
		check("sandbox", checkSandbox),
		check("access", checkAccess),
		check("service", checkService),
		check("polkit", checkPolkit),
		check("cgroup", checkCgroup),
		check("kernel", checkKernel),
		check("tools", checkTools),
		check("directories", checkDirectories),
		check("store", checkStore),
		check("disk", checkDisk),
	})
}

const asRoot = "run it as root: sudo codex-runner doctor"
