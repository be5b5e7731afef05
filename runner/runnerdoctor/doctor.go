// Package runnerdoctor checks an installation of codex-runner and reports its faults with their remedies. It changes
// nothing. A user without privileges sees the faults that keep the user from running commands; root sees all faults.
package runnerdoctor

import (
	"context"
	"path/filepath"
	"time"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/units"
)

// Host is the machine to check. Its functions may be called concurrently, and end with their context.
type Host struct {
	Root    string // before every path: "/"
	Version string // of this program
	Config  string // path of runner.toml
	IsRoot  bool
	User    string // the caller

	Systemd Systemd
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

// Systemd answers questions about systemd and polkit. See units.Manager.
type Systemd interface {
	Version(ctx context.Context) (string, error)
	Describe(ctx context.Context, unit string) (units.Description, error)
	MayManage(ctx context.Context, uid uint32, unit, verb string) (bool, error)
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

// surveyLimit bounds the question to the daemon.
const surveyLimit = 5 * time.Second

// survey has the facts that several checks need.
type survey struct {
	Host
	version   string // of systemd
	busErr    error
	status    wire.Status
	statusErr error
}

func (s *survey) path(elem ...string) string {
	return filepath.Join(append([]string{s.Root}, elem...)...)
}

// Examine makes every check. It returns within half a minute even if checks hang.
func Examine(ctx context.Context, h Host) checkup.Report {
	limited, cancel := context.WithTimeout(ctx, surveyLimit)
	defer cancel()
	s := &survey{Host: h}
	s.version, s.busErr = h.Systemd.Version(limited)
	s.status, s.statusErr = h.Status(limited)
	return checkup.Examine(ctx, []checkup.Check[*survey]{
		{Name: "systemd", Run: checkSystemd},
		{Name: "units", Run: checkUnits},
		{Name: "config", Run: checkConfig},
		{Name: "access", Run: checkAccess},
		{Name: "service", Run: checkService},
		{Name: "polkit", Run: checkPolkit},
		{Name: "cgroup", Run: checkCgroup},
		{Name: "kernel", Run: checkKernel},
		{Name: "tools", Run: checkTools},
		{Name: "directories", Run: checkDirectories},
		{Name: "store", Run: checkStore},
		{Name: "disk", Run: checkDisk},
	}, s)
}

const asRoot = "run it as root: sudo codex-runner doctor"
