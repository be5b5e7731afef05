package runnerdoctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/client"
	"codex-proxy/runner/config"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// checkConfig checks runner.toml, as the service reads it.
func checkConfig(_ context.Context, s *facts) []checkup.Finding {
	path := s.Path(s.Config)
	switch _, err := config.Load(path); {
	case errors.Is(err, os.ErrPermission):
		return checkup.Warning(s.Config, "not checked: only root may read it", asRoot).Alone()
	case err != nil:
		return checkup.Failure(s.Config, err.Error(), "correct it; then systemctl restart codex-runner").Alone()
	}
	return checkup.Passed(s.Config, "every setting is valid").Alone()
}

// checkAccess checks that the caller may use the socket, and otherwise only members of the group.
func checkAccess(_ context.Context, s *facts) []checkup.Finding {
	switch {
	case errors.Is(s.statusErr, client.ErrForbidden):
		return []checkup.Finding{s.forbidden()}
	case errors.Is(s.statusErr, client.ErrNotRunning):
		return checkup.Failure(paths.Socket, "nothing listens there", "systemctl start "+socketUnit).Alone()
	case s.statusErr != nil:
		return checkup.Failure(paths.Socket, s.statusErr.Error(), "systemctl status codex-runner").Alone()
	}
	info, err := os.Stat(s.Path(paths.Socket))
	if err != nil {
		return checkup.Failure(paths.Socket, "not checked: "+err.Error(), "systemctl restart "+socketUnit).Alone()
	}
	if info.Mode().Perm()&0o007 != 0 {
		return checkup.Failure(paths.Socket, fmt.Sprintf("has mode %04o: every user may run commands",
			info.Mode().Perm()),
			"take SocketMode= out of the drop-in that systemctl cat "+socketUnit+" shows; then systemctl restart "+socketUnit).Alone()
	}
	return checkup.Passed(paths.Socket, s.User+" may use it").Alone()
}

func (s *facts) forbidden() checkup.Finding {
	listed, effective, err := s.Group(account)
	switch {
	case err != nil:
		return checkup.Failure("", "the group "+account+" cannot be found: "+err.Error(),
			"systemd-sysusers codex-runner.conf")
	case effective:
		return checkup.Failure(paths.Socket, s.User+" is in the group "+account+", and still may not use it",
			"take SocketGroup= and SocketMode= out of the drop-in that systemctl cat "+socketUnit+" shows")
	case listed:
		return checkup.Failure("", s.User+" is in the group "+account+", but not since this login", "log in anew")
	}
	return checkup.Failure("", s.User+" is not in the group "+account,
		"as root: usermod -aG "+account+" "+s.User+"; then log in anew")
}

// checkService checks the daemon's report on itself.
func checkService(_ context.Context, s *facts) []checkup.Finding {
	if s.statusErr != nil {
		return checkup.Unchecked("", "it does not answer "+s.User, "access").Alone()
	}
	v := s.status
	var found []checkup.Finding
	if !v.Ready {
		found = append(found, checkup.Failure("", "is not ready: "+v.Reason, "journalctl -u codex-runner -n 20"))
	}
	if v.Version != s.Version {
		found = append(found, checkup.Warning("", "runs version "+v.Version+", and "+s.Version+" is installed",
			"systemctl restart codex-runner; commands that run go on"))
	}
	if v.Queued >= v.MaxQueued {
		found = append(found, checkup.Warning("", fmt.Sprintf("its queue is full: %d commands wait", v.Queued),
			"wait, or raise max_sessions or max_queued in "+s.Config))
	}
	return checkup.OrPassed(found, fmt.Sprintf("is ready; %d of %d commands run, %d wait", v.Running, v.MaxSessions,
		v.Queued))
}

// directory is one that the package, its tmpfiles and its units make.
type directory struct {
	path  string
	owner string
	most  os.FileMode // no more than these bits
	need  os.FileMode // all of these
}

// checkDirectories checks the owners and modes of the directories of sessions.
func checkDirectories(_ context.Context, s *facts) []checkup.Finding {
	if !s.IsRoot {
		return checkup.Warning("", "not checked: only root may see them", asRoot).Alone()
	}
	all := []directory{
		{paths.StateDir, account, 0o700, 0o700}, {paths.RuntimeDir, account, 0o755, 0o755},
		{paths.PrivateStates, "root", 0o700, 0o700}, {paths.EnvironmentStates, "root", 0o700, 0o700},
	}
	var found []checkup.Finding
	for _, d := range all {
		info, err := os.Stat(s.Path(d.path))
		if err != nil {
			found = append(found, checkup.Failure(d.path, err.Error(),
				"systemd-tmpfiles --create codex-runner.conf; systemctl restart codex-runner"))
			continue
		}
		uid, err := s.UID(d.owner)
		mode := info.Mode().Perm()
		remedy := fmt.Sprintf("chown %s: %s && chmod %04o %s", d.owner, d.path, d.most, d.path)
		switch st := info.Sys().(*syscall.Stat_t); {
		case err != nil:
			found = append(found, checkup.Failure(d.path, "there is no user "+d.owner,
				"systemd-sysusers codex-runner.conf"))
		case st.Uid != uid:
			found = append(found, checkup.Failure(d.path, fmt.Sprintf("belongs to the user %d, not to %s", st.Uid,
				d.owner), remedy))
		case mode&^d.most != 0 || mode&d.need != d.need:
			found = append(found, checkup.Failure(d.path, fmt.Sprintf("has mode %04o, not %04o", mode, d.most), remedy))
		}
	}
	return checkup.OrPassed(found, fmt.Sprintf("%d are for those who need them", len(all)))
}

// checkStore checks that the daemon can use its database.
func checkStore(ctx context.Context, s *facts) []checkup.Finding {
	if !s.IsRoot {
		return checkup.Warning("", "not checked: only root may read it", asRoot).Alone()
	}
	path := filepath.Join(paths.StateDir, store.FileName)
	err := store.Check(ctx, s.Path(path))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // the first start makes it
		return checkup.Failure(path, err.Error(),
			fmt.Sprintf("systemctl stop codex-runner && mkdir -p %[1]s/bad && mv %[2]s* %[1]s/bad && "+
				"systemctl start codex-runner, which begins a new one; sessions that run are lost", paths.StateDir,
				path)).Alone()
	}
	return checkup.Passed(path, "can be used").Alone()
}
