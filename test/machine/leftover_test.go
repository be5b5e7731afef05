package machine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	waitLimit = time.Minute
	waitStep  = 20 * time.Millisecond
)

const aloneEnv = "MACHINE_TEST_ALONE"

// alone runs the test again, in a process with mounts of its own: others come and go on the host
// meanwhile, such as those of the tests of other packages.
func alone(t *testing.T) {
	t.Helper()
	again := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), aloneEnv+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	out, err := again.CombinedOutput()
	require.NoError(t, err, string(out))
	if strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Skip(string(out))
	}
}

// TestCloseLeavesNothing compares the process's own mounts.
func TestCloseLeavesNothing(t *testing.T) {
	if os.Getenv(aloneEnv) == "" && os.Geteuid() == 0 {
		alone(t)
		return
	}
	t.Setenv("TMPDIR", t.TempDir())
	before := mounts()
	m := Boot(t, Debian("trixie"), Options{})
	m.MustRun(t, "systemd-run", "--quiet", "sh", "-c", "sleep 60 & sleep 60")
	processes, err := m.Processes("")
	require.NoError(t, err)
	running := map[string]int{} // pidfds, as the host may give the PIDs to others
	for _, p := range processes {
		if fd, err := unix.PidfdOpen(p.Host, 0); err == nil {
			defer unix.Close(fd)
			running[fmt.Sprint(p.Host, " ", p.Command)] = fd
		}
	}
	require.NotEmpty(t, running)
	assert.Equal(t, before, mounts(), "a running machine mounts nothing on the host")

	require.NoError(t, m.Close())
	assert.Equal(t, before, mounts())
	assert.NoDirExists(t, m.cgroup.path())
	for process, fd := range running {
		assert.ErrorIs(t, unix.PidfdSendSignal(fd, 0, nil, 0), unix.ESRCH, process)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

const orphanEnv = "MACHINE_TEST_ORPHAN"

// orphan is the program that TestOwnerKilled kills.
func orphan() error {
	m, err := Start(context.Background(), Debian("trixie"), Options{})
	if err != nil {
		return err
	}
	fmt.Println(m.pid, m.cgroup.path())
	<-m.Done()
	return nil
}

// TestOwnerKilled kills the process that booted a machine: the kernel kills
// the machine, and the next start removes the cgroup.
func TestOwnerKilled(t *testing.T) {
	Boot(t, Debian("trixie"), Options{}) // or skip
	owner := exec.Command("/proc/self/exe")
	owner.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	var pid int
	var cgroup string
	_, err = fmt.Fscan(bufio.NewReader(out), &pid, &cgroup)
	require.NoError(t, err)
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)

	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(waitLimit.Milliseconds()))
	require.NoError(t, err)
	require.Equal(t, 1, n, "the machine must die with its owner")
	require.Eventually(t, func() bool { sweep(); _, err := os.Stat(cgroup); return os.IsNotExist(err) },
		waitLimit, waitStep)
}
