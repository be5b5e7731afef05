package runnerdoctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/paths"
)

// checkCgroup checks that the limits of sessions are enforced: systemd accepts limits of a missing controller without
// effect.
func checkCgroup(_ context.Context, s *facts) []checkup.Finding {
	_, missing, err := s.Controllers()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkup.Warning("", "there is no unified hierarchy: limits of sessions may not be enforced",
			"boot with systemd.unified_cgroup_hierarchy=1").Alone()
	case err != nil:
		return checkup.Warning("", "not checked: "+err.Error(), asRoot).Alone()
	}
	if len(missing) > 0 {
		return checkup.Warning("", "the controllers "+strings.Join(missing, ", ")+
			" are missing: limits of CPU, memory and tasks that need them are accepted and not enforced",
			"on a virtual server or in a container, ask for them; else boot with cgroup_enable=memory").Alone()
	}
	return checkup.Passed("", "limits of CPU, memory and tasks are enforced").Alone()
}

// checkKernel checks limits of the kernel that sessions and their followers need.
func checkKernel(_ context.Context, s *facts) []checkup.Finding {
	var found []checkup.Finding
	for _, l := range []struct {
		key    string
		least  int
		detail string
	}{
		{"user.max_user_namespaces", 1024, "sessions need one each"},
		{"fs.inotify.max_user_instances", 32, "the service needs one to follow logs"},
		{"fs.inotify.max_user_watches", 4096, "each follower of a log needs one"},
		{"kernel.pid_max", 32768, "sessions share them with all programs"},
	} {
		text, err := os.ReadFile(s.Path("/proc/sys", strings.ReplaceAll(l.key, ".", "/")))
		if err != nil {
			found = append(found, checkup.Warning(l.key, "not checked: "+err.Error(), "sysctl "+l.key))
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || n < l.least {
			found = append(found, checkup.Failure(l.key, fmt.Sprintf("is %s: %s", strings.TrimSpace(string(text)),
				l.detail),
				fmt.Sprintf("echo %s=%d >/etc/sysctl.d/codex-runner.conf && sysctl --system", l.key, l.least)))
		}
	}
	return checkup.OrPassed(found, "its limits are high enough")
}

// checkTools checks for the programs that workspaces and set-ups are made with.
func checkTools(ctx context.Context, s *facts) []checkup.Finding {
	var found []checkup.Finding
	if err := s.Git(); err != nil {
		found = append(found, checkup.Failure("git", err.Error(), "apt install git, or dnf install git"))
	}
	missing := s.Missing(ctx)
	for _, kind := range slices.Sorted(maps.Keys(missing)) {
		if err := missing[kind]; err != nil {
			what, remedy, known := strings.Cut(err.Error(), ": ")
			if !known {
				remedy = "mend it, if projects need it"
			}
			found = append(found, checkup.Warning("set-ups of "+kind, "cannot be made: "+what, remedy))
		}
	}
	return checkup.OrPassed(found, "git, and what set-ups of Python, Node and conda need")
}

// Free space below which commands fail soon, and below which the administrator gets a warning. Logs, workspaces and
// environments share it as a rule.
const (
	scarce = 256 << 20
	low    = 4 << 30
)

// checkDisk checks the file systems of logs and of workspaces.
func checkDisk(_ context.Context, s *facts) []checkup.Finding {
	var found []checkup.Finding
	for _, dir := range []string{paths.StateDir, paths.Workspaces} {
		size, free, err := s.Disk(s.Path(dir))
		remedy := "make room (df " + dir + "; codex-runner prune --all --older-than 24h removes old sessions)"
		switch {
		case errors.Is(err, fs.ErrNotExist): // the first session makes it
		case errors.Is(err, fs.ErrPermission):
			found = append(found, checkup.Warning(dir, "not checked: only root may see it", asRoot))
		case err != nil:
			found = append(found, checkup.Failure(dir, err.Error(), "df "+dir))
		case free < scarce:
			found = append(found, checkup.Failure(dir, room(free, size)+": commands fail", remedy))
		case free < low:
			found = append(found, checkup.Warning(dir, room(free, size), remedy))
		}
	}
	return checkup.OrPassed(found, "there is room")
}

func room(free, size uint64) string {
	const mebi = 1 << 20
	return fmt.Sprintf("%d of %d MiB are free", free/mebi, size/mebi)
}
