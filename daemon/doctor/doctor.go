// Package doctor checks an installation and reports its faults with their remedies.
// It changes nothing and starts nothing, not even a stopped service.
//
// A check that could not run is never ok.
package doctor

import (
	"context"
	"time"

	"codex-proxy/internal/checkup"
)

const (
	// surveyLimit bounds each question to systemd and to the daemon.
	surveyLimit = 5 * time.Second
	// atATime bounds the questions to systemd at the same time: each is a connection to the bus.
	atATime = 16
)

// check is one check.
type check = checkup.Check[*survey]

// checks are in the order of the report: the findings of earlier ones explain those
// of later ones.
func checks() []check {
	return []check{
		{Name: "systemd", Run: checkSystemd},
		{Name: "units", Run: checkUnits},
		{Name: "users", Run: checkUsers},
		{Name: "permissions", Run: checkPermissions},
		{Name: "bus", Run: checkBus},
		{Name: "polkit", Run: checkPolkit},
		{Name: "codex", Run: checkCodex},
		{Name: "sandbox", Run: checkSandbox},
		{Name: "login", Run: checkLogin},
		{Name: "config", Run: checkConfig},
		{Name: "databases", Run: checkDatabases},
		{Name: "homes", Run: checkHomes},
		{Name: "sockets", Run: checkSockets},
		{Name: "service", Run: checkService},
		{Name: "models", Run: checkModels},
		{Name: "accounts", Run: checkAccounts},
		{Name: "dependencies", Run: checkDependencies},
		{Name: "remotes", Run: checkRemotes},
		{Name: "watchdog", Run: checkWatchdog},
		{Name: "ports", Run: checkPorts},
		{Name: "cgroup", Run: checkCgroup},
		{Name: "clock", Run: checkClock},
	}
}

// Examine makes every check. It returns within half a minute even if checks hang.
func Examine(ctx context.Context, h Host) Report {
	return checkup.Examine(ctx, checks(), h.survey(ctx))
}
