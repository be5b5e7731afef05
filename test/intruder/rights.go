package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// memories are the memories with names of another session.
func memories() []attempt {
	return []attempt{
		{"shared memory", func() error {
			_, err := unix.SysvShmGet(ipcKey, 1, 0)
			return err
		}},
		{"a message queue", func() error { return call(unix.SYS_MSGGET, ipcKey, 0) }},
		{"a semaphore", func() error { return call(unix.SYS_SEMGET, ipcKey, 1, 0) }},
		{"a POSIX message queue", func() error { return openQueue(unix.O_RDONLY) }},
		{"a key of the session", func() error { return key(unix.KEY_SPEC_SESSION_KEYRING) }},
		{"a key of the user session", func() error { return key(unix.KEY_SPEC_USER_SESSION_KEYRING) }},
		{"a key of the user", func() error { return key(unix.KEY_SPEC_USER_KEYRING) }},
		{"a requested key", func() error {
			_, err := unix.RequestKey("user", "mark", "", unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}},
	}
}

func key(ring int) error {
	_, err := unix.KeyctlSearch(ring, "user", "mark", 0)
	return err
}

// rights are what no session may do.
func rights() []attempt {
	file := func(name string) string { return "/tmp/intruder-" + name }
	path := func(s string) uintptr {
		p, _ := unix.BytePtrFromString(s) // without a NUL
		return uintptr(pointer(p))
	}
	all := []attempt{
		{"mount a file system", func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{"mount the workspace elsewhere", func() error { return unix.Mount("/workspace", "/tmp", "", unix.MS_BIND, "") }},
		{"remount / for writing", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"unmount /workspace", func() error { return unix.Unmount("/workspace", unix.MNT_DETACH) }},
		{"open a file system", func() error {
			_, err := unix.Fsopen("tmpfs", 0)
			return err
		}},
		{"copy a mount", func() error {
			_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
			return err
		}},
		{"chroot", func() error { return unix.Chroot("/tmp") }},
		{"pivot_root", func() error { return unix.PivotRoot("/", "/tmp") }},
		{"a device", func() error { return unix.Mknod(file("device"), unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0))) }},
		{"a character device", func() error { return unix.Mknod(file("memory"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))) }},
		{"open by handle", func() error {
			_, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), unix.O_RDONLY)
			return err
		}},
		{"the set-user-ID bit", func() error {
			if err := os.WriteFile(file("program"), nil, 0o700); err != nil {
				return err
			}
			return unix.Chmod(file("program"), 0o4755)
		}},
		{"the set-group-ID bit of a directory", func() error { return unix.Mkdir(file("directory"), 0o2777) }},
		{"give a file away", func() error { return unix.Chown("/workspace", 0, 0) }},
		{"a file capability", func() error { return unix.Setxattr("/workspace", "security.capability", make([]byte, 20), 0) }},
		{"become root", func() error { return call(unix.SYS_SETUID, 0) }},
		{"become another user", func() error { return call(unix.SYS_SETRESUID, 65534, 65534, 65534) }},
		{"become root by the real user", func() error { return call(unix.SYS_SETREUID, 0, 0) }},
		{"the group of root", func() error { return call(unix.SYS_SETRESGID, 0, 0, 0) }},
		{"give a file to the group of root", func() error { return unix.Chown("/workspace", -1, 0) }},
		{"give a file of root to oneself", func() error {
			return unix.Fchownat(unix.AT_FDCWD, "/etc/passwd", os.Getuid(), -1, unix.AT_SYMLINK_NOFOLLOW)
		}},
		{"other groups", func() error { return call(unix.SYS_SETGROUPS, 0, 0) }},
		{"another host name", func() error { return unix.Sethostname([]byte("intruder")) }},
		{"the clock", func() error { return unix.Settimeofday(&unix.Timeval{Sec: 1}) }},
		{"reboot", func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_ON) }},
		{"a kernel module", func() error { return unix.InitModule([]byte{0}, "") }},
		{"the kernel's log", func() error {
			_, err := unix.Klogctl(3, make([]byte, 64))
			return err
		}},
		{"a BPF program", func() error { return call(unix.SYS_BPF, 5, path("x"), 8) }},
		{"performance counters", func() error {
			_, err := unix.PerfEventOpen(&unix.PerfEventAttr{Size: uint32(unix.PERF_ATTR_SIZE_VER0)}, -1, 0, -1, 0)
			return err
		}},
		{"page faults", func() error { return call(unix.SYS_USERFAULTFD, 0) }},
		{"swap", func() error { return call(unix.SYS_SWAPON, path("/tmp/x"), 0) }},
		{"ports", func() error { return call(unix.SYS_IOPERM, 0x80, 1, 1) }},
		{"all of /dev", func() error { return unix.Mknod("/dev/intruder", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))) }},
		{"real time", func() error {
			return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		}},
		{"a higher priority", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -10) }},
		{"more open files than the hard limit", func() error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30})
		}},
		{"a hard link to a file of root", func() error { return os.Link("/etc/passwd", "/workspace/passwd") }},
		{"a hard link out of the workspace", func() error { return os.Link("/workspace", os.Getenv("HOME")+"/workspace") }},
	}
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "process": unix.CLONE_NEWPID, "network": unix.CLONE_NEWNET,
		"IPC": unix.CLONE_NEWIPC, "host name": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		all = append(all, attempt{"a " + name + " namespace", func() error {
			program := exec.Command("/bin/true")
			program.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
			return program.Run()
		}})
	}
	return all
}
