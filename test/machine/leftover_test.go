package machine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	waitLimit = 10 * time.Second
	waitStep  = 20 * time.Millisecond
)

// TestCloseLeavesNothing is not parallel: it compares the process's own mounts.
func TestCloseLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	before := mounts()
	m := Boot(t, Debian("trixie"), Options{})
	m.MustRun(t, "systemd-run", "--quiet", "sh", "-c", "sleep 60 & sleep 60")
	processes, err := m.Processes("")
	require.NoError(t, err)
	require.NotEmpty(t, processes)
	assert.Equal(t, before, mounts(), "a running machine mounts nothing on the host")

	require.NoError(t, m.Close())
	assert.Equal(t, before, mounts())
	assert.NoDirExists(t, m.cgroup.path())
	for _, p := range processes {
		assert.ErrorIs(t, unix.Kill(p.Host, 0), unix.ESRCH, p.Command)
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
