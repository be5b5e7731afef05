package dependencies

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// refused is a start that must fail. It returns what the unit then shows.
func refused(d bed.Dependency) map[string]string {
	d.T.Helper()
	_, _, err := d.Run(d.T.Context(), "systemctl", "start", d.Unit)
	require.Error(d.T, err)
	return d.Properties(d.Unit, "ActiveState", "Result", "ExecMainStatus", "StatusText", "NRestarts")
}

// stopDependency must succeed, and leave no process. It returns how long systemctl took.
func stopDependency(d bed.Dependency) time.Duration {
	d.T.Helper()
	took := d.Timed("stop")
	processes, err := d.Processes(d.Unit)
	require.NoError(d.T, err)
	require.Empty(d.T, processes)
	return took
}

// serverProcess is the process of the command, which notify-exec started.
func serverProcess(d bed.Dependency) machine.Process {
	d.T.Helper()
	s := serverProcesses(d)
	require.Len(d.T, s, 1)
	return s[0]
}

func serverProcesses(d bed.Dependency) (servers []machine.Process) {
	d.T.Helper()
	processes, err := d.Processes(d.Unit)
	require.NoError(d.T, err)
	for _, p := range processes {
		if !besideServer.MatchString(p.Command) {
			servers = append(servers, p)
		}
	}
	return servers
}

// besideServer are the other processes of a unit: notify-exec and what runs before it, each of which is systemd's own
// program until its execve(2), and one that has ended has no command line.
var besideServer = regexp.MustCompile(`^(/usr/bin/codex-proxy |\(|systemd |/sbin/init|/(usr/)?lib/systemd/|$)`)

// stopServer stops the process of the command, whose port goes on to accept connections: until its end, which may come
// before the connection does.
func stopServer(d bed.Dependency, p machine.Process, address string) {
	d.T.Helper()
	d.Signal(p, unix.SIGSTOP)
	conn, err := d.DialContext(d.T.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
		return
	}
	state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Host))
	_, state, _ = bytes.Cut(state, []byte(") "))
	require.False(d.T, bytes.HasPrefix(state, []byte("T")), "the stopped process does not accept: %v", err)
}

// clock is the time by CLOCK_MONOTONIC, as systemd's properties have it.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
