package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"codex-proxy/dependencies/dependency"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/requires"
)

// dependent is a dependency that has a file, or that is required.
type dependent struct {
	name    string
	file    *dependency.Settings // nil: it is bad or missing
	err     error                // of the file
	missing bool
	needs   []string // the units that require it
}

func (d dependent) unit() string    { return units.Dependency(d.name) }
func (d dependent) path() string    { return dependencyFile(d.name) }
func (d dependent) subject() string { return "dependency " + d.name }

// findDependencies finds the dependencies with a file, and those that are required.
func (s *survey) findDependencies() {
	names, err := dependency.Names(s.path(paths.DependencySettings))
	s.dependenciesErr = err
	needs := s.requirers()
	names = slices.AppendSeq(names, maps.Keys(needs))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d := dependent{name: name, needs: needs[name]}
		if _, err := os.Stat(s.path(dependencyFile(name))); errors.Is(err, fs.ErrNotExist) {
			d.missing = true
		} else {
			d.file, d.err = dependency.Load(s.path(dependencyFile(name)))
		}
		s.dependencies = append(s.dependencies, d)
	}
}

// requirers are the units that require each dependency, by its name. A file with a fault has a finding of its own.
func (s *survey) requirers() map[string][]string {
	needs := map[string][]string{}
	files, _ := requires.All(s.path(settingsDir))
	for _, by := range files {
		for _, name := range by.Requires {
			needs[name] = append(needs[name], by.Unit)
		}
	}
	return needs
}

func (s *survey) dependencyUnits() []string {
	var names []string
	for _, d := range s.dependencies {
		names = append(names, d.unit())
	}
	return names
}

// dependencyFile is the path of a dependency's settings.
func dependencyFile(name string) string { return paths.DependencySettings + "/" + name + ".toml" }

// checkDependencies checks that each dependency can start, runs if it is to run, answers its probe, and has its port
// and its data to itself.
func checkDependencies(ctx context.Context, s *survey) []Finding {
	var found []Finding
	if s.dependenciesErr != nil {
		found = append(found, fail(paths.DependencySettings, s.dependenciesErr.Error(), "remove files that are not "+
			"needed; codex-proxy dependencies list"))
	}
	each := make([][]Finding, len(s.dependencies))
	var all sync.WaitGroup
	for i, d := range s.dependencies {
		all.Go(func() { each[i] = s.judgeDependency(ctx, d) })
	}
	all.Wait()
	found = append(slices.Concat(append([][]Finding{found}, each...)...), s.sharedPorts()...)
	return orOK(append(found, s.sharedLocks()...), "none is configured")
}

// judgeDependency returns at least one finding.
func (s *survey) judgeDependency(ctx context.Context, d dependent) []Finding {
	found := s.judgeDependencyFile(d)
	if s.busErr != nil {
		return append(found, unchecked(d.subject(), "systemd does not answer", "bus"))
	}
	if err := s.unitErrs[d.unit()]; err != nil {
		return append(found, fail(d.subject(), "not checked: "+err.Error(), "systemctl status "+d.unit()))
	}
	unit := s.units[d.unit()]
	if f, bad := judgeFile(unit); bad {
		return append(found, f)
	}
	found = append(found, s.judgeSettings(d, unit)...)
	switch f, bad := s.judgeRun(d, unit); {
	case bad:
		return append(found, f)
	case d.file == nil || !unit.Active():
		return found
	}
	f := s.judgeAnswer(ctx, d, unit)
	if f.Level == OK && len(found) > 0 {
		return found
	}
	return append(found, f)
}

// judgeRun judges the state of the unit. The file of a dependency that is invalid has a finding of its own.
func (s *survey) judgeRun(d dependent, unit units.Description) (Finding, bool) {
	start := "systemctl start " + d.unit()
	journal := "journalctl -u " + d.unit() + " -n 20"
	switch exit, _ := unit.LastExit(); {
	case unit.Active():
		return Finding{}, false
	case unit.Failed() && exit.Status == refusedStatus:
		return fail(d.subject(), "was not started: "+strings.TrimPrefix(unit.StatusText, "Not started: "),
			"stop that process in its own unit or session; then "+start), true
	case unit.Failed() && exit.Status == invalidStatus && d.file == nil:
		return Finding{}, false
	case unit.Failed():
		return fail(d.subject(), "has failed"+why(unit)+required(d), fmt.Sprintf("%s, and mend the cause; then "+
			"systemctl reset-failed %s && %s", journal, d.unit(), start)), true
	case unit.ActiveState == "failed" || unit.HeldBack || strings.HasPrefix(unit.SubState, "auto-restart"):
		return fail(d.subject(), "keeps failing, and waits for its next start"+why(unit)+required(d), journal), true
	case unit.ActiveState == "activating" || unit.ActiveState == "deactivating":
		return warn(d.subject(), fmt.Sprintf("is on its way (%s, %s)", unit.ActiveState, unit.SubState),
			"look again in a minute; "+journal), true
	case d.file == nil:
		return Finding{}, false // the file's fault is found; a start would fail
	case len(d.needs) > 0:
		return fail(d.subject(), "is stopped"+required(d), start), true
	case unit.FileState == "enabled":
		return warn(d.subject(), "is stopped, and starts at boot", start+"; or systemctl disable "+d.unit()), true
	}
	return warn(d.subject(), "is stopped, and nothing starts it", "systemctl enable --now "+d.unit()+
		"; or codex-proxy dependencies remove "+d.name), true
}

// Exit statuses of a unit that systemd does not restart (RestartPreventExitStatus=).
const (
	refusedStatus = "75" // another process holds its lock, port or data
	invalidStatus = "78" // its file is missing or wrong
)

// required is the end of a sentence about a dependency that is needed.
func required(d dependent) string {
	if len(d.needs) == 0 {
		return ""
	}
	if len(d.needs) > 1 {
		return ", and " + strings.Join(d.needs, ", ") + " require it"
	}
	return ", and " + d.needs[0] + " requires it"
}

// judgeAnswer probes a dependency that runs, where this process can. The unit's own watchdog covers the others: a
// command, which belongs into the unit's sandbox, and a network that is not this one.
func (s *survey) judgeAnswer(ctx context.Context, d dependent, unit units.Description) Finding {
	mend := fmt.Sprintf("journalctl -u %[1]s -n 20; systemctl restart %[1]s", d.unit())
	switch {
	case unit.Watchdog == 0:
		return warn(d.subject(), "has no watchdog: systemd would not notice that it hangs",
			"take WatchdogSec= out of the drop-in that systemctl cat "+d.unit()+" shows")
	case unit.WatchdogAge > unit.Watchdog:
		return fail(d.subject(), fmt.Sprintf("has not answered its probe for %s, of %s",
			unit.WatchdogAge.Round(time.Second), unit.Watchdog), mend)
	case d.file.Network == dependency.NoNetwork || probedInside(d.file.Probe.Check):
		return s.answers(d, unit.StatusText)
	}
	ctx, cancel := context.WithTimeout(ctx, min(d.file.Probe.Timeout, surveyLimit))
	defer cancel()
	detail, err := s.Probe(ctx, d.file.Probe)
	if err != nil {
		return fail(d.subject(), fmt.Sprintf("does not pass its probe %s: %v", d.file.Probe.Check, err), mend)
	}
	return s.answers(d, detail)
}

func (s *survey) answers(d dependent, detail string) Finding {
	if len(d.needs) == 0 && s.units[d.unit()].FileState != "enabled" {
		return warn(d.subject(), "runs, and does not start at boot", "systemctl enable "+d.unit())
	}
	return ok(d.subject(), "answers ("+detail+")")
}

func probedInside(check string) bool {
	return strings.HasPrefix(check, "exec:") || strings.HasPrefix(check, "appserver:")
}
