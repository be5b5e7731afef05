package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes/remote"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// distant is a remote that has a file.
type distant struct {
	name string
	file *remote.Settings // nil: it is bad
	err  error            // of the file
}

func (r distant) unit() string    { return units.Remote(r.name) }
func (r distant) socket() string  { return units.RemoteSocket(r.name) }
func (r distant) subject() string { return "remote " + r.name }

func (s *survey) findRemotes() {
	names, err := remote.Names(s.path(paths.RemoteSettings))
	s.remotesErr = err
	for _, name := range names {
		r := distant{name: name}
		r.file, r.err = remote.Load(s.path(paths.RemoteSettings, name+".toml"))
		s.remotes = append(s.remotes, r)
	}
}

func (s *survey) remoteUnits() (names []string) {
	for _, r := range s.remotes {
		names = append(names, r.unit(), r.socket())
	}
	return names
}

// checkRemotes checks that people can attach to each remote, and that it can start.
func checkRemotes(ctx context.Context, s *survey) []Finding {
	var found []Finding
	if s.remotesErr != nil {
		found = append(found, fail(paths.RemoteSettings, s.remotesErr.Error(), "remove files that are not needed; "+
			"codex-proxy remotes list"))
	}
	if len(s.remotes) > 0 {
		found = append(found, s.judgeNamespaces()...)
	}
	for _, r := range s.remotes {
		problems := s.judgeRemote(ctx, r)
		if len(problems) == 0 {
			problems = []Finding{ok(r.subject(), s.remoteWords(r))}
		}
		found = append(found, problems...)
	}
	return orOK(found, "none is configured")
}

// judgeNamespaces finds the settings of the kernel by which the fence of a remote cannot be made. A file that is not
// there is a setting that this kernel does not have.
func (s *survey) judgeNamespaces() (found []Finding) {
	for _, setting := range []struct{ name, bad, mend string }{
		{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000, and set it in /etc/sysctl.d"},
		{"kernel/unprivileged_userns_clone", "0",
			"sysctl kernel.unprivileged_userns_clone=1, and set it in /etc/sysctl.d"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1",
			"sysctl kernel.apparmor_restrict_unprivileged_userns=0, and set it in /etc/sysctl.d"},
	} {
		text, err := os.ReadFile(s.path("/proc/sys", setting.name))
		if err == nil && strings.TrimSpace(string(text)) == setting.bad {
			found = append(found,
				fail("/proc/sys/"+setting.name, "is "+setting.bad+": users may make no user namespaces, "+
					"which every remote needs", setting.mend))
		}
	}
	return found
}

func (s *survey) judgeRemote(ctx context.Context, r distant) []Finding {
	if r.err != nil {
		return []Finding{fail(r.subject(), r.err.Error(),
			fmt.Sprintf("correct it until codex-proxy remotes check %s reports "+
				"no fault; then systemctl daemon-reload", r.name))}
	}
	var found []Finding
	for _, fault := range s.RemoteFaults(r.file) {
		found = append(found, fail(r.subject(), fault, "then look again: codex-proxy remotes check "+r.name))
	}
	found = slices.Concat(found, s.judgeAccountsOf(r), s.judgeRemoteCodex(ctx, r))
	if s.busErr != nil {
		return append(found, unchecked(r.subject(), "systemd does not answer", "bus"))
	}
	for _, name := range []string{r.unit(), r.socket()} {
		if err := s.unitErrs[name]; err != nil {
			return append(found, fail(r.subject(), "not checked: "+err.Error(), "systemctl status "+name))
		}
		if f, bad := judgeFile(s.units[name]); bad {
			return append(found, f)
		}
	}
	return append(append(found, s.judgeRemoteSettings(r)...), s.judgeRemoteRun(r)...)
}

// judgeRemoteCodex checks the version of the remote's codex. A codex that is not found is a fault of the file.
func (s *survey) judgeRemoteCodex(ctx context.Context, r distant) []Finding {
	user := r.file.User
	if user == "" {
		user = workerUser
	}
	account, err := s.Account(user)
	if err != nil || !s.IsRoot {
		return nil
	}
	c, err := s.Codex(&codexhome.Worker{File: r.file.File, CodexPath: r.file.CodexPath}, nil, account)
	if err != nil {
		return nil
	}
	version, err := c.Version(ctx)
	if err != nil {
		return []Finding{blame(r.subject(), err, "run it by hand: "+c.Path()+" --version")}
	}
	minor := 0
	if n, _ := fmt.Sscanf(version, "0.%d.", &minor); n == 1 && minor < codexhome.OldestAttended {
		return []Finding{fail(r.subject(), fmt.Sprintf("its codex is %s, and remotes need 0.%d", version,
			codexhome.OldestAttended), "npm install -g @openai/codex@latest")}
	}
	return nil
}

// judgeRemoteSettings checks that systemd has read the file since its last change: a start is refused until then.
func (s *survey) judgeRemoteSettings(r distant) []Finding {
	text, err := os.ReadFile(s.path(generated, r.unit()+".d", "50-settings.conf"))
	if err == nil && bytes.Contains(text, []byte(remote.HashVariable+"="+r.file.Hash)) &&
		!s.units[r.unit()].NeedReload {
		return nil
	}
	return []Finding{fail(r.file.File, "has changed, and systemd has not read it: the next start is refused",
		fmt.Sprintf("systemctl daemon-reload && systemctl restart %s; systemctl try-restart %s cuts its turns, which go on",
			r.socket(), r.unit()))}
}

// judgeRemoteRun judges the states of the units. A remote that is stopped is well if its socket is open.
func (s *survey) judgeRemoteRun(r distant) (found []Finding) {
	unit, socket := s.units[r.unit()], s.units[r.socket()]
	journal := "journalctl -u " + r.unit() + " -n 20"
	switch {
	case unit.Failed():
		found = append(found, fail(r.subject(), "has failed"+why(unit),
			fmt.Sprintf("%s, and mend the cause; then systemctl "+
				"reset-failed %s; codex-proxy attach %s", journal, r.unit(), r.name)))
	case unit.ActiveState == "failed" || unit.HeldBack || strings.HasPrefix(unit.SubState, "auto-restart"):
		found = append(found, fail(r.subject(), "keeps failing, and waits for its next start"+why(unit), journal))
	}
	open := "systemctl enable --now " + r.socket()
	switch {
	case socket.Active() && socket.FileState != "enabled":
		found = append(found, warn(r.subject(), "its socket is open, and does not open at boot", open))
	case socket.Active():
	case socket.FileState == "enabled":
		found = append(found, fail(r.subject(), "its socket is closed: nobody can attach"+why(socket),
			fmt.Sprintf("systemctl reset-failed %[1]s; systemctl start %[1]s", r.socket())))
	default:
		found = append(found, warn(r.subject(), "its socket is closed: nobody can attach",
			open+"; or codex-proxy remotes "+
				"remove "+r.name))
	}
	return found
}

// remoteWords describe the state of a remote without a fault.
func (s *survey) remoteWords(r distant) string {
	if !s.units[r.unit()].Active() {
		return "asleep, an attach starts it"
	}
	for _, known := range s.report.Remotes {
		if known.Name == r.name && known.Use != nil {
			return fmt.Sprintf("runs: attached %d, turns %d", known.Use.Owners+known.Use.Viewers, known.Use.Turns)
		}
	}
	return "runs"
}

// judgeAccountsOf finds the accounts that a remote names and that do not exist.
func (s *survey) judgeAccountsOf(r distant) (found []Finding) {
	for _, name := range r.file.Accounts {
		if known := s.workerNames(); !slices.Contains(known, name) {
			found = append(found, fail(r.subject(), fmt.Sprintf("accounts: there is no account %q, but %s", name,
				strings.Join(known, ", ")), "correct accounts in "+r.file.File+", or codex-proxy accounts add "+name))
		}
	}
	return found
}
