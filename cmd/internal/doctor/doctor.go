// Package doctor checks an installation and reports its faults with their remedies.
// It changes nothing and starts nothing, not even a stopped service.
//
// A check that could not run is never ok.
package doctor

import (
	"context"
	"fmt"
	"time"
)

const (
	// surveyLimit bounds each question to systemd and to the daemon.
	surveyLimit = 5 * time.Second
	// atATime bounds the questions to systemd at the same time: each is a connection to the bus.
	atATime = 16
	// checkLimit bounds each check. The slowest runs codex twice.
	checkLimit = 12 * time.Second
)

// check is one check. Its name is stable: scripts match on it.
type check struct {
	name string
	run  func(context.Context, *survey) []Finding
}

// checks are in the order of the report: the findings of earlier ones explain those
// of later ones.
func checks() []check {
	return []check{
		{"systemd", checkSystemd},
		{"units", checkUnits},
		{"users", checkUsers},
		{"permissions", checkPermissions},
		{"bus", checkBus},
		{"polkit", checkPolkit},
		{"codex", checkCodex},
		{"sandbox", checkSandbox},
		{"login", checkLogin},
		{"config", checkConfig},
		{"databases", checkDatabases},
		{"sockets", checkSockets},
		{"service", checkService},
		{"models", checkModels},
		{"accounts", checkAccounts},
		{"dependencies", checkDependencies},
		{"watchdog", checkWatchdog},
		{"ports", checkPorts},
		{"cgroup", checkCgroup},
		{"clock", checkClock},
	}
}

// Examine makes every check. It returns within half a minute even if checks hang.
func Examine(ctx context.Context, h Host) Report {
	s := h.survey(ctx)
	all := checks()
	found := make([]chan []Finding, len(all))
	for i, c := range all {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- c.examine(ctx, s) }()
	}
	// A check may hang in the kernel, on a dead file system, where no context reaches
	// it: Examine abandons it then.
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkLimit+time.Second)
	defer cancel()
	var r Report
	for i, c := range all {
		r.add(c.name, c.await(patience, found[i]))
	}
	return r
}

func (c check) await(patience context.Context, found <-chan []Finding) []Finding {
	select {
	case f := <-found:
		return f
	case <-patience.Done():
	}
	select {
	case f := <-found: // both channels were ready
		return f
	default:
		return []Finding{fail("", fmt.Sprintf("not checked: no answer within %s", checkLimit),
			"look for a file system or service that hangs (dmesg, systemctl list-jobs)")}
	}
}

func (c check) examine(ctx context.Context, s *survey) []Finding {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return c.run(ctx, s)
}
