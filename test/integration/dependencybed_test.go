package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/machine"
	"codex-proxy/units"
)

// dependency is a server beside codex-proxy on the machine of a bed, by its file in
// /etc/codex-proxy/dependencies.
type dependency struct {
	*bed
	name, unit, file, state string
}

// dependency writes the file, and lets systemd read it. It does not start the unit.
func (b *bed) dependency(name, settings string) dependency {
	b.t.Helper()
	d := dependency{bed: b, name: name, unit: units.Dependency(name),
		file: "/etc/codex-proxy/dependencies/" + name + ".toml", state: "/var/lib/codex-dependency/" + name}
	d.write(settings)
	return d
}

// write replaces the file, and lets systemd read it.
func (d dependency) write(settings string) {
	d.t.Helper()
	require.NoError(d.t, d.WriteFile(d.file, []byte(settings), 0o644))
	d.MustRun(d.t, "systemctl", "daemon-reload")
}

// start must succeed. It returns how long systemctl took, which waits for READY=1.
func (d dependency) start() time.Duration {
	d.t.Helper()
	return d.systemctl("start")
}

// systemctl must succeed. It returns how long the command took, without the way into the machine.
func (d dependency) systemctl(verb string) time.Duration {
	d.t.Helper()
	out := d.MustRun(d.t, "bash", "-ec", `began=${EPOCHREALTIME/./}; systemctl "$@"
		echo $((${EPOCHREALTIME/./} - began))us`, "bash", verb, d.unit)
	took, err := time.ParseDuration(trim(out))
	require.NoError(d.t, err)
	return took
}

// refused is a start that must fail. It returns what the unit then shows.
func (d dependency) refused() map[string]string {
	d.t.Helper()
	_, _, err := d.Run(d.t.Context(), "systemctl", "start", d.unit)
	require.Error(d.t, err)
	return d.show(d.unit, "ActiveState", "Result", "ExecMainStatus", "StatusText", "NRestarts")
}

// stop must succeed, and leave no process. It returns how long systemctl took.
func (d dependency) stop() time.Duration {
	d.t.Helper()
	took := d.systemctl("stop")
	processes, err := d.Processes(d.unit)
	require.NoError(d.t, err)
	require.Empty(d.t, processes)
	return took
}

// server is the process of the command, which notify-exec started.
func (d dependency) server() machine.Process {
	d.t.Helper()
	s := d.servers()
	require.Len(d.t, s, 1)
	return s[0]
}

func (d dependency) servers() (servers []machine.Process) {
	d.t.Helper()
	processes, err := d.Processes(d.unit)
	require.NoError(d.t, err)
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

// run identifies the present run of the unit.
func (d dependency) run() string {
	d.t.Helper()
	return d.show(d.unit, "InvocationID")["InvocationID"]
}

// readyAgain waits until another run than that is ready, and returns since when it is, by
// clock.
func (d dependency) readyAgain(before string) time.Duration {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), bound)
	defer cancel()
	for {
		now := d.show(d.unit, "InvocationID", "ActiveState", "ActiveEnterTimestampMonotonic")
		if now["ActiveState"] == "active" && now["InvocationID"] != before {
			usec, err := strconv.ParseInt(now["ActiveEnterTimestampMonotonic"], 10, 64)
			require.NoError(d.t, err)
			return time.Duration(usec) * time.Microsecond
		}
		require.NoError(d.t, ctx.Err(), "%s never was ready again: %v\n%s", d.unit, now, d.journal(d.unit))
		pause(ctx, 20*time.Millisecond)
	}
}

// stopServer stops the process of the command, whose port goes on to accept connections: until its end, which may come
// before the connection does.
func (d dependency) stopServer(p machine.Process, address string) {
	d.t.Helper()
	d.signal(p, unix.SIGSTOP)
	conn, err := d.DialContext(d.t.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
		return
	}
	state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Host))
	_, state, _ = bytes.Cut(state, []byte(") "))
	require.False(d.t, bytes.HasPrefix(state, []byte("T")), "the stopped process does not accept: %v", err)
}

// clock is the time by CLOCK_MONOTONIC, as systemd's properties have it.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
