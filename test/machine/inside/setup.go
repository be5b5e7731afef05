// Package inside is the beginning of a machine's first process: the program that boots it, started again in the
// machine's namespaces, makes the machine's root and becomes systemd.
//
// It imports little: Go initializes a package as soon as its imports are, so this process becomes systemd before
// it has initialized most packages of a large program of tests, which takes longer than the rest.
package inside

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Name is the name under which this program runs again inside a machine's namespaces, to become its PID 1.
const Name = "codex-machine-setup"

// Path is the PATH of everything in a machine.
const Path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// init runs instead of the program when it was started by spawn. It
// must come before anything of the program itself, hence no function that a
// main could forget to call.
func init() {
	if os.Args[0] == Name {
		runSetup()
	}
}

// runSetup never returns: it becomes systemd, or reports why it can't.
func runSetup() {
	runtime.LockOSThread() // unshare and the mounts belong to one thread, which then executes
	unix.CloseOnExec(3)
	talk := os.NewFile(3, "talk")
	err := setup(talk)
	fmt.Fprint(talk, err)
	os.Exit(1)
}

func setup(talk *os.File) error {
	var s Spec
	if err := json.NewDecoder(talk).Decode(&s); err != nil {
		return fmt.Errorf("cannot read the spec: %w", err)
	}
	// After the clone: a namespace cloned along would have the parent's cgroup as its root.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot make a cgroup namespace: %w", err)
	}
	if err := s.mountAll(); err != nil {
		return err
	}
	if err := s.writeAll(); err != nil {
		return err
	}
	if err := sendNotifySocket(talk); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("machine")); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	if err := limitFiles(); err != nil {
		return err
	}
	unix.Umask(0o022)
	err := unix.Exec(s.systemd(), []string{"systemd", "--system", "--unit=" + s.Target, "--show-status=no"}, []string{
		// With any value systemd assumes a container:
		// https://systemd.io/CONTAINER_INTERFACE
		"container=codex-machine",
		"NOTIFY_SOCKET=" + notifyPath,
		Path,
		"LANG=C.UTF-8",
	})
	return fmt.Errorf("cannot execute systemd: %w (is it installed in the root?)", err)
}

// limitFiles gives PID 1 the limit it has on real hardware, as far as ours
// allows: raising a hard limit takes CAP_SYS_RESOURCE, which containers lack.
func limitFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot read limits: %w", err)
	}
	limit.Max = min(limit.Max, 524288)
	limit.Cur = min(limit.Max, 1024)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot set limits: %w", err)
	}
	return nil
}

func (s Spec) systemd() string {
	for _, path := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return "/sbin/init"
}

const notifyPath = "/run/host/notify"

// sendNotifySocket binds the socket on which systemd reports and gives it to
// the parent, which thus needs no file of its own on the host.
func sendNotifySocket(talk *os.File) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot make the notify socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: notifyPath}); err != nil {
		return fmt.Errorf("cannot bind the notify socket: %w", err)
	}
	if err := unix.Sendmsg(int(talk.Fd()), []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("cannot send the notify socket: %w", err)
	}
	return nil
}
