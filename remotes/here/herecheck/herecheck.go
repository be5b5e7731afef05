// Package herecheck checks the own codexes of users in units: whether a bare codex gets there.
package herecheck

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/here"
	"codex-proxy/units"
	"codex-proxy/units/survey"
)

// Ask asks the unit behind a socket for its status.
type Ask func(ctx context.Context, socket string) (remotes.Status, error)

// room is the units of users, as their check sees them.
type room struct {
	*survey.Facts
	ask Ask
	all []here.Record
	err error // of the records
}

// New returns this part of an installation.
func New(f *survey.Facts, ask Ask) survey.Room {
	r := &room{Facts: f, ask: ask}
	r.all, r.err = here.Records(f.Path(paths.HereRecords)).All()
	out := survey.Room{Checks: []checkup.Check{{Name: "here", Stage: checkup.Features, Run: r.check}}}
	for _, of := range r.all {
		out.Units = append(out.Units, survey.Unit{Name: units.Here(of.User)},
			survey.Unit{Name: units.HereSocket(of.User)})
	}
	return out
}

func (r *room) check(ctx context.Context) (found []checkup.Finding) {
	if r.err != nil {
		found = append(found, checkup.Failure(paths.HereRecords, r.err.Error(),
			"remove the file, and enable the user again"))
	}
	if len(r.all) > 0 {
		found = append(found, r.config()...)
	}
	for _, of := range r.all {
		faults := r.judge(ctx, of)
		if len(faults) == 0 {
			faults = checkup.Passed(subject(of), r.words(of)).Alone()
		}
		found = append(found, faults...)
	}
	return checkup.OrPassed(found, "no user has a unit for the own codex")
}

func subject(of here.Record) string { return "codex of " + of.User }

// config checks that codex starts no daemon of its own.
func (r *room) config() []checkup.Finding {
	state, err := here.ConfigOf(r.Path(paths.CodexConfig))
	switch {
	case err != nil:
		return checkup.Failure(paths.CodexConfig, err.Error(), "correct the file").Alone()
	case state == here.ConfigAbsent || state == here.ConfigLacks:
		return checkup.Warning(paths.CodexConfig, "a codex that waits more than 2 s for its unit starts its own daemon",
			"add daemon_auto_start = false under [features], unless a codex before 0."+
				fmt.Sprint(versions.OldestForHere)+" runs here").Alone()
	}
	return nil
}

func (r *room) judge(ctx context.Context, of here.Record) (found []checkup.Finding) {
	fail := func(fault, remedy string) { found = append(found, checkup.Failure(subject(of), fault, remedy)) }
	again := "codex-proxy here enable " + of.User
	if !r.IsRoot {
		return []checkup.Finding{survey.Unprivileged(subject(of), "look into the home")}
	}
	home := of.In()
	home.Dir = r.Path(home.Dir)
	if linked, instead := home.Linked(paths.HereSocket(of.User)); !linked {
		fail("the control socket of codex is no link to the unit's, but "+instead, again)
	}
	if n := len(here.Daemons(r.Path("/proc"), of.UID)); n > 0 {
		fail(fmt.Sprintf("codex's own daemon runs beside the unit (%d processes): threads of it are not in the unit", n),
			again)
	}
	if _, err := os.Stat(r.Path(paths.HereLoan(of.User))); of.Lends() && err != nil {
		fail("its unit may not ask for the logins of the accounts that are lent to it",
			"codex-proxy here accounts "+of.User+" --lend "+cmp.Or(strings.Join(of.Loan.Accounts, ","), "all"))
	}
	if r.BusErr != nil {
		return append(found, checkup.Unchecked(subject(of), "systemd does not answer", "bus"))
	}
	for _, name := range []string{units.Here(of.User), units.HereSocket(of.User)} {
		if err := r.UnitErrs[name]; err != nil {
			return append(found, checkup.Failure(subject(of), "not checked: "+err.Error(), "systemctl status "+name))
		}
		if f, bad := survey.JudgeFile(r.Units[name]); bad {
			return append(found, f)
		}
	}
	return append(append(found, r.judgeRun(of)...), r.judgeVersions(ctx, of)...)
}

// judgeRun judges the states of the units. One that is stopped is well if its socket listens.
func (r *room) judgeRun(of here.Record) (found []checkup.Finding) {
	unit, socket := r.Units[units.Here(of.User)], r.Units[units.HereSocket(of.User)]
	journal := "journalctl -u " + units.Here(of.User) + " -n 20"
	switch {
	case unit.Failed():
		found = append(found, checkup.Failure(subject(of), "has failed"+survey.Why(unit),
			fmt.Sprintf("%s, and mend the cause; then systemctl reset-failed %s", journal, units.Here(of.User))))
	case unit.ActiveState == "failed" || unit.HeldBack || strings.HasPrefix(unit.SubState, "auto-restart"):
		found = append(found, checkup.Failure(subject(of),
			"keeps failing, and waits for its next start"+survey.Why(unit), journal))
	}
	switch {
	case !socket.Active():
		found = append(found, checkup.Failure(subject(of),
			"its socket does not listen: a bare codex runs without the unit"+survey.Why(socket), reopen(of)))
	case socket.FileState != "enabled":
		found = append(found, checkup.Warning(subject(of), "its socket listens, and does not at boot",
			"systemctl enable "+units.HereSocket(of.User)))
	}
	return found
}

// reopen is the remedy for a socket that is closed, as after too many starts that have failed.
func reopen(of here.Record) string {
	return fmt.Sprintf("systemctl reset-failed %[1]s %[2]s; systemctl start %[1]s", units.HereSocket(of.User),
		units.Here(of.User))
}

// judgeVersions compares the running codex and the attached terminals with the versions that the tests run.
func (r *room) judgeVersions(ctx context.Context, of here.Record) (found []checkup.Finding) {
	if !r.Running(units.Here(of.User)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, survey.AnswerLimit)
	defer cancel()
	st, err := r.ask(ctx, paths.HereSocket(of.User))
	if err != nil {
		return checkup.Failure(subject(of), "it does not answer: "+err.Error(),
			"systemctl status "+units.Here(of.User)).Alone()
	}
	_, version, _ := strings.Cut(st.Codex, "codex ")
	version, _, _ = strings.Cut(version, ",")
	if standing := versions.Standing(version); standing != "" {
		found = append(found, checkup.Warning(subject(of), "codex "+version+" is "+standing,
			"install a newer codex-proxy"))
	}
	for _, client := range st.Attached {
		name, terminal, _ := strings.Cut(client.Program, " ")
		if name == "codex-tui" && versions.Older(terminal, versions.OldestForHere) {
			found = append(found, checkup.Warning(subject(of),
				fmt.Sprintf("a terminal with codex %s is attached to codex %s: the tests run terminals from 0.%d on",
					terminal, version, versions.OldestForHere), "leave it, and start codex again"))
		}
	}
	return found
}

// words describe a unit without a fault.
func (r *room) words(of here.Record) string {
	if r.Running(units.Here(of.User)) {
		return "runs in its unit"
	}
	return "asleep, the next codex starts it"
}
