package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

// Exec is a command to run in the machine, as root unless it is runuser(1) or
// the like.
type Exec struct {
	Args           []string // looked up in the machine's PATH
	Env            []string // added to a small environment
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// environment is that of every command: nothing of the host's gets in.
var environment = []string{
	inside.Path, "HOME=/root", "LANG=C.UTF-8", "TERM=dumb",
	"SYSTEMD_PAGER=", "SYSTEMD_COLORS=0", "DEBIAN_FRONTEND=noninteractive",
}

// outputDelay bounds the reading of a command's output after its end. Nothing but a process
// that the command has left behind takes so long: a busy machine reads the output later.
const outputDelay = 30 * time.Second

// Exec runs a command and waits for it. When ctx ends its process group is
// killed. An exit status other than 0 is an *exec.ExitError.
func (m *Machine) Exec(ctx context.Context, e Exec) error {
	scope, err := os.Open(m.cgroup.path("init.scope"))
	if err != nil {
		return fmt.Errorf("cannot enter the machine: %w", err)
	}
	defer scope.Close()
	cmd := exec.CommandContext(ctx, "nsenter", append(m.entry(), e.Args...)...)
	cmd.Env = append(append([]string{}, environment...), e.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(scope.Fd())}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = outputDelay
	if err := m.startInside(cmd); err != nil {
		return fmt.Errorf("cannot enter the machine: %w", err)
	}
	return cmd.Wait()
}

// startInside starts cmd in the machine's PID namespace, which a process can
// enter only by being born there; nsenter does the rest.
func (m *Machine) startInside(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/self/ns/pid")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err := unix.Setns(int(m.pidfd.Fd()), unix.CLONE_NEWPID); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = cmd.Start()
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWPID) == nil {
		runtime.UnlockOSThread() // else the thread ends with its goroutine, as no other may use it
	}
	return err
}

// entry is the arguments of nsenter(1) before a command, which has the usual umask. The cgroup namespace comes after the
// process is in its cgroup, as nsdelegate forbids to cross it (cgroups(7)). nsenter takes a millisecond; this program,
// run again in its place, takes fifty to start. Each namespace is named by its file: nsenter(1) of util-linux 2.41 opens
// its --target with pidfd_open(2), which takes the number as one of the machine, and may find itself.
func (m *Machine) entry() []string {
	ns := fmt.Sprintf("=/proc/%d/ns/", m.pid)
	return []string{"--mount" + ns + "mnt", "--uts" + ns + "uts", "--ipc" + ns + "ipc", "--net" + ns + "net",
		"--cgroup" + ns + "cgroup", "sh", "-c", `umask 022; exec "$@"`, "sh"}
}

// Run runs a command and returns its output; err has its exit status and its stderr.
func (m *Machine) Run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errOut bytes.Buffer
	err = m.Exec(ctx, Exec{Args: args, Stdout: &out, Stderr: &errOut})
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errOut.Bytes()))
	}
	return out.String(), errOut.String(), err
}
