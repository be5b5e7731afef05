package remotescheck

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/workerscheck"
)

// distant is a remote that has a file.
type distant struct {
	name string
	file *remoteconfig.Settings // nil: it is bad
	err  error                  // of the file
}

func (d distant) unit() string    { return units.Remote(d.name) }
func (d distant) socket() string  { return units.RemoteSocket(d.name) }
func (d distant) subject() string { return "remote " + d.name }

func (r *room) find() {
	names, err := remoteconfig.Names(r.Path(paths.RemoteSettings))
	r.err = err
	for _, name := range names {
		d := distant{name: name}
		d.file, d.err = remoteconfig.Load(r.Path(paths.RemoteSettings, name+".toml"))
		r.all = append(r.all, d)
	}
}

// remotes checks that people can attach to each remote, and that it can start.
func (r *room) remotes(ctx context.Context) []checkup.Finding {
	var found []checkup.Finding
	if r.err != nil {
		found = append(found, checkup.Failure(paths.RemoteSettings, r.err.Error(), "remove files that are not needed; "+
			"codex-proxy remotes list"))
	}
	if len(r.all) > 0 {
		found = append(found, r.judgeNamespaces()...)
	}
	for _, d := range r.all {
		problems := r.judge(ctx, d)
		if len(problems) == 0 {
			problems = checkup.Passed(d.subject(), r.words(d)).Alone()
		}
		found = append(found, problems...)
	}
	return checkup.OrPassed(found, "none is configured")
}

// judgeNamespaces finds the settings of the kernel by which the namespaces of a remote cannot be made. A file that is
// not there is a setting that this kernel does not have.
func (r *room) judgeNamespaces() (found []checkup.Finding) {
	for _, setting := range []struct{ name, bad, mend string }{
		{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000, and set it in /etc/sysctl.d"},
		{"kernel/unprivileged_userns_clone", "0",
			"sysctl kernel.unprivileged_userns_clone=1, and set it in /etc/sysctl.d"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1",
			"sysctl kernel.apparmor_restrict_unprivileged_userns=0, and set it in /etc/sysctl.d"},
	} {
		text, err := os.ReadFile(r.Path("/proc/sys", setting.name))
		if err == nil && strings.TrimSpace(string(text)) == setting.bad {
			found = append(found,
				checkup.Failure("/proc/sys/"+setting.name, "is "+setting.bad+": users may make no user namespaces, "+
					"which every remote needs", setting.mend))
		}
	}
	return found
}

func (r *room) judge(ctx context.Context, d distant) []checkup.Finding {
	if d.err != nil {
		return checkup.Failure(d.subject(), d.err.Error(),
			fmt.Sprintf("correct it until codex-proxy remotes check %s reports "+
				"no fault; then systemctl daemon-reload", d.name)).Alone()
	}
	var found []checkup.Finding
	for _, fault := range r.faults(d.file) {
		found = append(found, checkup.Failure(d.subject(), fault, "then look again: codex-proxy remotes check "+d.name))
	}
	found = slices.Concat(found, r.judgeAccountsOf(d), r.judgeCodex(ctx, d), r.judgeHands(ctx, d), r.judgePush(d))
	if r.BusErr != nil {
		return append(found, checkup.Unchecked(d.subject(), "systemd does not answer", "bus"))
	}
	for _, name := range []string{d.unit(), d.socket()} {
		if err := r.UnitErrs[name]; err != nil {
			return append(found, checkup.Failure(d.subject(), "not checked: "+err.Error(), "systemctl status "+name))
		}
		if f, bad := survey.JudgeFile(r.Units[name]); bad {
			return append(found, f)
		}
	}
	return append(append(found, r.judgeSettings(d)...), r.judgeRun(d)...)
}

// judgeCodex checks the version of the remote's codex. A codex that is not found is a fault of the file.
func (r *room) judgeCodex(ctx context.Context, d distant) []checkup.Finding {
	user := d.file.User
	if user == "" {
		user = paths.WorkerUser
	}
	account, err := r.Account(user)
	if err != nil || !r.IsRoot {
		return nil
	}
	c, err := r.Codex(d.unit(), &codexhome.Worker{File: d.file.File, CodexPath: d.file.CodexPath}, nil, account)
	if err != nil {
		return nil
	}
	version, err := c.Version(ctx)
	if err != nil {
		return []checkup.Finding{workerscheck.Blame(d.subject(), err, "run it by hand: "+c.Path()+" --version")}
	}
	minor := 0
	if n, _ := fmt.Sscanf(version, "0.%d.", &minor); n == 1 && minor < versions.OldestForRemotes {
		return checkup.Failure(d.subject(), fmt.Sprintf("its codex is %s, and remotes need 0.%d", version,
			versions.OldestForRemotes), "npm install -g @openai/codex@latest").Alone()
	}
	return nil
}

// judgeSettings checks that systemd has read the file since its last change: a start is refused until then.
func (r *room) judgeSettings(d distant) []checkup.Finding {
	text, err := os.ReadFile(r.Path(survey.Generated, d.unit()+".d", "50-settings.conf"))
	if err == nil && bytes.Contains(text, []byte(remoteconfig.HashVariable+"="+d.file.Hash)) &&
		!r.Units[d.unit()].NeedReload {
		return nil
	}
	return checkup.Failure(d.file.File, "has changed, and systemd has not read it: the next start is refused",
		fmt.Sprintf("systemctl daemon-reload && systemctl restart %s; systemctl try-restart %s cuts its turns, "+
			"which go on", d.socket(), d.unit())).Alone()
}

// judgeRun judges the states of the units. A remote that is stopped is well if its socket is open.
func (r *room) judgeRun(d distant) (found []checkup.Finding) {
	unit, socket := r.Units[d.unit()], r.Units[d.socket()]
	journal := "journalctl -u " + d.unit() + " -n 20"
	switch {
	case unit.Failed():
		found = append(found, checkup.Failure(d.subject(), "has failed"+survey.Why(unit),
			fmt.Sprintf("%s, and mend the cause; then systemctl "+
				"reset-failed %s; codex-proxy attach %s", journal, d.unit(), d.name)))
	case unit.ActiveState == "failed" || unit.HeldBack || strings.HasPrefix(unit.SubState, "auto-restart"):
		found = append(found, checkup.Failure(d.subject(),
			"keeps failing, and waits for its next start"+survey.Why(unit), journal))
	}
	open := "systemctl enable --now " + d.socket()
	switch {
	case socket.Active() && socket.FileState != "enabled":
		found = append(found, checkup.Warning(d.subject(), "its socket is open, and does not open at boot", open))
	case socket.Active():
	case socket.FileState == "enabled":
		found = append(found, checkup.Failure(d.subject(), "its socket is closed: nobody can attach"+survey.Why(socket),
			fmt.Sprintf("systemctl reset-failed %[1]s; systemctl start %[1]s", d.socket())))
	default:
		found = append(found, checkup.Warning(d.subject(), "its socket is closed: nobody can attach",
			open+"; or codex-proxy remotes remove "+d.name))
	}
	return found
}

// words describe the state of a remote without a fault.
func (r *room) words(d distant) string {
	if !r.Units[d.unit()].Active() {
		return "asleep, an attach starts it"
	}
	for _, known := range r.Report.Remotes {
		if known.Name == d.name && known.Use != nil {
			return fmt.Sprintf("runs: attached %d, turns %d", known.Use.Owners+known.Use.Viewers, known.Use.Turns)
		}
	}
	return "runs"
}

// judgePush finds a remote with push = true while the page for other machines is off.
func (r *room) judgePush(d distant) []checkup.Finding {
	if !d.file.Push || r.BusErr != nil || r.Units[paths.ConsoleUnit].Active() {
		return nil
	}
	return checkup.Warning(d.subject(), "push = true, and the page for other machines, where browsers turn "+
		"notifications on, is off", "systemctl enable --now "+paths.ConsoleUnit+" (docs/console.md)").Alone()
}

// judgeAccountsOf finds the accounts that a remote names and that do not exist.
func (r *room) judgeAccountsOf(d distant) (found []checkup.Finding) {
	for _, name := range d.file.Accounts {
		if known := r.accounts; !slices.Contains(known, name) {
			found = append(found, checkup.Failure(d.subject(), fmt.Sprintf("accounts: there is no account %q, but %s",
				name,
				strings.Join(known, ", ")), "correct accounts in "+d.file.File+", or codex-proxy accounts add "+name))
		}
	}
	return found
}
