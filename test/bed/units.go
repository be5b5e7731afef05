package bed

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/await"
	"codex-proxy/test/machine"
)

// KillCodex kills codex, and returns the time of it when the proxy has noticed it.
func (b *Bed) KillCodex() time.Time {
	b.T.Helper()
	codex, then := b.Codex(), time.Now()
	killed := b.Signal(codex, unix.SIGKILL)
	b.Until("not ready", UnreadySince(then))
	return killed
}

// IsCodex distinguishes codex from the process that supervises it.
func IsCodex(p machine.Process) bool {
	return strings.Contains(p.Command, "app-server") && !strings.Contains(p.Command, "notify-exec")
}

// Codex is the host's PID of the codex process of the worker.
func (b *Bed) Codex() machine.Process {
	b.T.Helper()
	processes, err := b.Processes(WorkerUnit)
	require.NoError(b.T, err)
	for _, p := range processes {
		if IsCodex(p) {
			return p
		}
	}
	require.Fail(b.T, "no codex process", "%+v", processes)
	return machine.Process{}
}

// Signal sends a signal to a process of the machine, and returns the time after it.
func (b *Bed) Signal(p machine.Process, s unix.Signal) time.Time {
	b.T.Helper()
	require.NoError(b.T, unix.Kill(p.Host, s))
	return time.Now()
}

// Properties reads properties of a unit from systemd.
func (b *Bed) Properties(unit string, properties ...string) map[string]string {
	b.T.Helper()
	values, err := b.Show(b.T.Context(), unit, properties...)
	require.NoError(b.T, err)
	return values
}

// ProxyPID is the main process of the service, as the machine counts.
func (b *Bed) ProxyPID() string {
	b.T.Helper()
	return b.Properties(ProxyUnit, "MainPID")["MainPID"]
}

// Fifty is how many worker units are watched.
const Fifty = 50

// StartEnabled makes a dependency, which starts now and at boot. It returns its run.
func (b *Bed) StartEnabled(name string) map[string]string {
	b.T.Helper()
	WriteProgram(b, "listener", Listener)
	NewDependency(b, name, Listening(7001))
	b.MustRun(b.T, "systemctl", "enable", "--now", "codex-dependency@"+name)
	run := b.Properties("codex-dependency@"+name+".service", "InvocationID", "MainPID", "ActiveState")
	require.Equal(b.T, "active", run["ActiveState"])
	return run
}

// UntilUnit waits until the property has the value.
func (b *Bed) UntilUnit(unit, property, value string) {
	b.T.Helper()
	deadline := time.Now().Add(Bound)
	for pace := (await.Pace{}); b.Properties(unit, property)[property] != value; pace.Pause(b.T.Context()) {
		require.True(b.T, time.Now().Before(deadline), "%s never had %s=%s: %v\n%s", unit, property, value,
			b.Properties(unit, property, "SubState", "StatusText"), b.UnitJournal(unit))
	}
}

// OnlyProcess is the process of a unit that has one.
func (b *Bed) OnlyProcess(unit string) machine.Process {
	b.T.Helper()
	processes, err := b.Processes(unit)
	require.NoError(b.T, err)
	require.Len(b.T, processes, 1, unit)
	return processes[0]
}

// KillAll kills processes, some of which may have ended since they were found, or end with the others.
func (b *Bed) KillAll(processes []machine.Process) {
	b.T.Helper()
	for _, p := range processes {
		if err := unix.Kill(p.Host, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
			require.NoError(b.T, err)
		}
	}
}

// AwaitInactive waits for the end of a unit that is being stopped.
func (b *Bed) AwaitInactive(unit string) {
	b.T.Helper()
	b.UntilShow(unit, "ActiveState", "inactive")
}

// Seconds reads a number of seconds.
func Seconds(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

// UnknownBefore254 are the settings that systemd 252 ignores, and notify-exec reads.
var UnknownBefore254 = regexp.MustCompile(`(?m)^.*: Unknown key '(RestartSteps|RestartMaxDelaySec)' in section \[Service\], ignoring\.\n`)

// AwaitDeath returns when a process has ended, see pidfd_open(2).
func (b *Bed) AwaitDeath(p machine.Process) time.Time {
	b.T.Helper()
	fd, err := unix.PidfdOpen(p.Host, 0)
	if errors.Is(err, unix.ESRCH) {
		return time.Now()
	}
	require.NoError(b.T, err)
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(Bound.Milliseconds()))
	require.NoError(b.T, err)
	require.Equal(b.T, 1, n, "the process does not end")
	return time.Now()
}

// DropIn overrides a unit's settings.
func (b *Bed) DropIn(unit, name, text string) {
	b.T.Helper()
	require.NoError(b.T, b.WriteFile("/etc/systemd/system/"+unit+".d/"+name+".conf", []byte(text), 0o644))
	b.MustRun(b.T, "systemctl", "daemon-reload")
}

// UntilShow waits until a property of a unit has the value.
func (b *Bed) UntilShow(unit, property, value string) {
	b.T.Helper()
	b.UntilShown(unit, func(v map[string]string) bool { return v[property] == value }, property)
}

// UntilShown reads properties of a unit from systemd until ok.
func (b *Bed) UntilShown(unit string, ok func(map[string]string) bool, properties ...string) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		values := b.Properties(unit, properties...)
		if ok(values) {
			return
		}
		require.True(b.T, time.Now().Before(deadline), "%s stays at %v", unit, values)
	}
}
