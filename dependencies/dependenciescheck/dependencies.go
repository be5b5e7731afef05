package dependenciescheck

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

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/requires"
	"codex-proxy/units/survey"
)

// dependent is a dependency that has a file, or that is required.
type dependent struct {
	name    string
	file    *dependencyconfig.Settings // nil: it is bad or missing
	err     error                      // of the file
	missing bool
	needs   []string // the units that require it
}

func (d dependent) unit() string    { return units.Dependency(d.name) }
func (d dependent) path() string    { return File(d.name) }
func (d dependent) subject() string { return "dependency " + d.name }

// find finds the dependencies with a file, and those that are required.
func (r *room) find() {
	names, err := dependencyconfig.Names(r.Path(paths.DependencySettings))
	r.err = err
	needs := r.requirers()
	names = slices.AppendSeq(names, maps.Keys(needs))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d := dependent{name: name, needs: needs[name]}
		if _, err := os.Stat(r.Path(File(name))); errors.Is(err, fs.ErrNotExist) {
			d.missing = true
		} else {
			d.file, d.err = dependencyconfig.Load(r.Path(File(name)))
		}
		r.all = append(r.all, d)
	}
}

// requirers are the units that require each dependency, by its name. A file with a fault has a finding of its own.
func (r *room) requirers() map[string][]string {
	needs := map[string][]string{}
	files, _ := requires.All(r.Path(paths.Settings))
	for _, by := range files {
		for _, name := range by.Requires {
			needs[name] = append(needs[name], by.Unit)
		}
	}
	return needs
}

// File is the path of a dependency's settings.
func File(name string) string { return paths.DependencySettings + "/" + name + ".toml" }

// dependencies checks that each dependency can start, runs if it is to run, answers its probe, and has its port
// and its data to itself.
func (r *room) dependencies(ctx context.Context) []checkup.Finding {
	var found []checkup.Finding
	if r.err != nil {
		found = append(found, checkup.Failure(paths.DependencySettings, r.err.Error(), "remove files that are not "+
			"needed; codex-proxy dependencies list"))
	}
	each := make([][]checkup.Finding, len(r.all))
	var all sync.WaitGroup
	for i, d := range r.all {
		all.Go(func() { each[i] = r.judgeDependency(ctx, d) })
	}
	all.Wait()
	found = append(slices.Concat(append([][]checkup.Finding{found}, each...)...), r.sharedPorts()...)
	return checkup.OrPassed(append(found, r.sharedLocks()...), "none is configured")
}

// judgeDependency returns at least one finding.
func (r *room) judgeDependency(ctx context.Context, d dependent) []checkup.Finding {
	found := r.judgeDependencyFile(d)
	if r.BusErr != nil {
		return append(found, checkup.Unchecked(d.subject(), "systemd does not answer", "bus"))
	}
	if err := r.UnitErrs[d.unit()]; err != nil {
		return append(found, checkup.Failure(d.subject(), "not checked: "+err.Error(), "systemctl status "+d.unit()))
	}
	unit := r.Units[d.unit()]
	if f, bad := survey.JudgeFile(unit); bad {
		return append(found, f)
	}
	found = append(found, r.judgeSettings(d, unit)...)
	switch f, bad := r.judgeRun(d, unit); {
	case bad:
		return append(found, f)
	case d.file == nil || !unit.Active():
		return found
	}
	f := r.judgeAnswer(ctx, d, unit)
	if f.Level == checkup.OK && len(found) > 0 {
		return found
	}
	return append(found, f)
}

// judgeRun judges the state of the unit. The file of a dependency that is invalid has a finding of its own.
func (r *room) judgeRun(d dependent, unit units.Description) (checkup.Finding, bool) {
	start := "systemctl start " + d.unit()
	journal := "journalctl -u " + d.unit() + " -n 20"
	switch exit, _ := unit.LastExit(); {
	case unit.Active():
		return checkup.Finding{}, false
	case unit.Failed() && exit.Status == refusedStatus:
		return checkup.Failure(d.subject(), "was not started: "+strings.TrimPrefix(unit.StatusText, "Not started: "),
			"stop that process in its own unit or session; then "+start), true
	case unit.Failed() && exit.Status == invalidStatus && d.file == nil:
		return checkup.Finding{}, false
	case unit.Failed():
		return checkup.Failure(d.subject(), "has failed"+survey.Why(unit)+required(d),
			fmt.Sprintf("%s, and mend the cause; then systemctl reset-failed %s && %s", journal, d.unit(), start)), true
	case unit.ActiveState == "failed" || unit.HeldBack || strings.HasPrefix(unit.SubState, "auto-restart"):
		return checkup.Failure(d.subject(), "keeps failing, and waits for its next start"+survey.Why(unit)+required(d),
			journal), true
	case unit.ActiveState == "activating" || unit.ActiveState == "deactivating":
		return checkup.Warning(d.subject(), fmt.Sprintf("is on its way (%s, %s)", unit.ActiveState, unit.SubState),
			"look again in a minute; "+journal), true
	case d.file == nil:
		return checkup.Finding{}, false // the file's fault is found; a start would fail
	case len(d.needs) > 0:
		return checkup.Failure(d.subject(), "is stopped"+required(d), start), true
	case unit.FileState == "enabled":
		return checkup.Warning(d.subject(), "is stopped, and starts at boot", start+"; or systemctl disable "+d.unit()),
			true
	}
	return checkup.Warning(d.subject(), "is stopped, and nothing starts it", "systemctl enable --now "+d.unit()+
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
func (r *room) judgeAnswer(ctx context.Context, d dependent, unit units.Description) checkup.Finding {
	mend := fmt.Sprintf("journalctl -u %[1]s -n 20; systemctl restart %[1]s", d.unit())
	switch {
	case unit.Watchdog == 0:
		return checkup.Warning(d.subject(), "has no watchdog: systemd would not notice that it hangs",
			"take WatchdogSec= out of the drop-in that systemctl cat "+d.unit()+" shows")
	case unit.WatchdogAge > unit.Watchdog:
		return checkup.Failure(d.subject(), fmt.Sprintf("has not answered its probe for %s, of %s",
			unit.WatchdogAge.Round(time.Second), unit.Watchdog), mend)
	case d.file.Network == dependencyconfig.NoNetwork || probedInside(d.file.Probe.Check):
		return r.answers(d, unit.StatusText)
	}
	ctx, cancel := context.WithTimeout(ctx, min(d.file.Probe.Timeout, survey.AnswerLimit))
	defer cancel()
	detail, err := r.Probe(ctx, d.file.Probe)
	if err != nil {
		return checkup.Failure(d.subject(), fmt.Sprintf("does not pass its probe %s: %v", d.file.Probe.Check, err),
			mend)
	}
	return r.answers(d, detail)
}

func (r *room) answers(d dependent, detail string) checkup.Finding {
	if len(d.needs) == 0 && r.Units[d.unit()].FileState != "enabled" {
		return checkup.Warning(d.subject(), "runs, and does not start at boot", "systemctl enable "+d.unit())
	}
	return checkup.Passed(d.subject(), "answers ("+detail+")")
}

func probedInside(check string) bool {
	return strings.HasPrefix(check, "exec:") || strings.HasPrefix(check, "appserver:")
}
