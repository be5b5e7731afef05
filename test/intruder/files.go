package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var errNothing = errors.New("nothing is there")

// reads tries to read a file or a directory, or any that matches a pattern.
func reads(patterns ...string) []attempt {
	var all []attempt
	for _, pattern := range patterns {
		all = append(all, attempt{"read " + pattern, func() error {
			matches, err := filepath.Glob(pattern)
			if err != nil {
				return err
			}
			err = errNothing
			for _, path := range matches {
				if err = read(path); err == nil {
					return nil
				}
			}
			return err
		}})
	}
	return all
}

// read reads something of a file or a directory. An empty directory has nothing.
func read(path string) error {
	file, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		names, err := file.Readdirnames(1)
		if err == nil && len(names) == 0 {
			err = errNothing
		}
		return err
	}
	_, err = file.Read(make([]byte, 1))
	return err
}

// files are the files of another session, of the service and of the host.
func files(v victim) []attempt {
	var all []attempt
	for _, dir := range []string{
		"/var/lib/codex-session/" + v.ID, "/var/lib/private/codex-session/" + v.ID,
		fmt.Sprintf("/var/lib/codex-workspace/%d/tree", v.Slot), "/var/lib/codex-workspace/home-" + v.ID,
		"/tmp", "/var/tmp", "/dev/shm", "/tmp/systemd-private-*/tmp", "/var/tmp/systemd-private-*/tmp",
		fmt.Sprintf("/proc/%d/cwd", v.PID), fmt.Sprintf("/proc/%d/root/workspace", v.PID),
		fmt.Sprintf("/proc/%d/root/tmp", v.Main), fmt.Sprintf("/proc/%d/root/workspace", v.Main),
	} {
		all = append(all, reads(dir+"/mark")...)
	}
	for _, name := range []string{"environ", "mem", "maps", "fd/*", "cmdline", "status", "stat", "cwd/*", "root/*", "mountinfo", "task/*"} {
		all = append(all, reads(fmt.Sprintf("/proc/%d/%s", v.PID, name), fmt.Sprintf("/proc/%d/%s", v.Main, name))...)
	}
	all = append(all, reads(
		"/var/lib/codex-session/*/mark", "/var/lib/private/codex-session/"+v.ID, "/var/lib/codex-workspace/*",
		"/var/lib/codex-runner/sessions/"+v.ID+"/1/output", "/var/lib/codex-runner/sessions/*/*/*",
		"/var/lib/codex-runner/*", "/var/lib/codex-runner", "/run/codex-runner/*", "/run/codex-runner/daemon/*", "/run/codex-runner/daemon/sessions/*",
		"/run/codex-runner/daemon/secrets/"+v.ID+"/TOKEN", "/run/codex-session/*", "/run/codex-session/"+v.ID+"/credentials/*",
		"/run/codex-repository/*", "/run/credentials/*",
		"/var/lib/private/codex-repository/*", "/var/lib/private/codex-repository/"+v.Key, "/var/lib/codex-repository/*",
		"/var/lib/codex-repository/"+v.Key+"/*", "/var/lib/codex-environment/4242/"+v.Key+"/*", "/var/lib/private/codex-environment-build/*",
		"/environments", "/environments/*", "/environments/"+v.Key+"/*", "/repository/*",
		"/var/lib/codex-proxy/*", "/var/lib/codex-worker/*", "/run/codex-proxy/*", "/run/codex-worker/*",
		"/etc/shadow", "/var/log/journal/*/*", "/run/log/journal/*/*", "/root/*", "/home/*", "/run/user/*",
		"/dev/mem", "/dev/kmsg", "/dev/nvme*", "/dev/sd*", "/dev/loop*", "/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/1/environ",
		"/proc/key-users", "/proc/locks", "/proc/modules", "/proc/cmdline", "/sys/kernel/debug/*", "/sys/kernel/tracing/*", "/dev/mqueue/*",
	)...)
	main := strconv.Itoa(os.Getppid())
	for _, name := range []string{"environ", "mem", "maps", "fd/*", "root/*", "cwd/*", "map_files/*"} {
		all = append(all, reads("/proc/"+main+"/"+name)...) // the log and the result are open there
	}
	return append(all, attempt{"find the mark in /proc", func() error { return search(v.Mark) }})
}

// search looks for the mark in all that /proc shows of other processes.
func search(mark string) error {
	own := strconv.Itoa(os.Getpid())
	lists, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, list := range lists {
		file, err := os.Open(list)
		if err != nil || strings.HasPrefix(list, "/proc/"+own+"/") {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(file, 1<<20))
		_ = file.Close()
		if bytes.Contains(text, []byte(mark)) {
			return nil
		}
	}
	return errNothing
}

// writes are files that no session may change.
func writes(v victim) []attempt {
	var all []attempt
	for _, dir := range []string{
		"/", "/etc", "/usr/bin", "/var/lib", "/run", "/run/codex-runner", "/run/codex-session", "/run/systemd/system", "/repository",
		"/repository/mirror.git", "/environments", "/environments/" + v.Key, "/var/lib/codex-session", "/var/lib/private",
		"/var/lib/codex-runner", "/var/lib/codex-workspace", "/sys/fs/cgroup", "/dev", "/proc", "/boot",
		"/var/lib/codex-session/" + v.ID, fmt.Sprintf("/proc/%d/cwd", v.PID), os.Getenv("CREDENTIALS_DIRECTORY"),
	} {
		all = append(all, attempt{"write into " + dir, func() error {
			path := dir + "/intruder"
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			_ = file.Close()
			return os.Remove(path)
		}})
	}
	unit, _ := filepath.Glob("/sys/fs/cgroup/codex.slice/codex-sessions.slice/codex-session*")
	var limits []string
	for _, cgroup := range append(unit, "/sys/fs/cgroup", "/sys/fs/cgroup/codex.slice/codex-sessions.slice/"+v.Unit) {
		for _, name := range []string{"cgroup.procs", "cgroup.kill", "cgroup.freeze", "memory.max", "pids.max", "cgroup.subtree_control"} {
			limits = append(limits, cgroup+"/"+name)
		}
	}
	for _, path := range append(limits, "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
		fmt.Sprintf("/proc/%d/oom_score_adj", v.PID), fmt.Sprintf("/proc/%d/oom_score_adj", v.Main), "/etc/passwd", "/usr/bin/codex-runner",
		"/sys/kernel/uevent_helper", fmt.Sprintf("/proc/%d/mem", os.Getppid()), "/dev/shm/../mem") {
		all = append(all, attempt{"open " + path + " for writing", func() error {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_ = file.Close()
			}
			return err
		}})
	}
	return append(all, attempt{"lower its oom_score_adj", func() error {
		return os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0)
	}})
}
