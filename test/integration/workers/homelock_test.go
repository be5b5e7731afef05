package workers

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// holding is a line that holds the lock of a home until its input ends.
func holding(home string) []string {
	return []string{"codex-proxy", "notify-exec", "--lock", "my shell:" + home, "--", "sh", "-c", "echo held; read end"}
}

// A home has one writer: codex itself holds the lock of its home. Other commands that
// would write there fail, and name the holder.
func TestHomeHasOneWriter(t *testing.T) { bed.EitherSuite(t, testHomeHasOneWriter) }

func testHomeHasOneWriter(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Forgetful)
	b.Start()
	b.MustRun(t, "codex-proxy", "accounts", "add", "second")
	require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/second.toml", []byte(bed.RealWorker), 0o644))
	const second, home = "codex-worker@second.service", "/var/lib/codex-worker/second"
	b.MustRun(t, "systemctl", "start", second)

	// The running codex has the lock, not only its shim.
	codex := bed.InWorker(b, "second").Codex
	assert.Contains(t, b.MustRun(t, "sh", "-c", fmt.Sprintf("ls -l /proc/%d/fd", codex)), "/second/.lock")
	refused := func(want string, args ...string) {
		t.Helper()
		out, stderr, err := b.Run(t.Context(), args...)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, out)
		assert.Contains(t, stderr, want)
	}
	const byUnit = "the home " + home + " is in use by " + second + ", and has one writer at a time"
	refused(byUnit, holding(home)...)
	refused(byUnit, "env", "CODEX_HOME="+home, "RUNTIME_DIRECTORY=/run/codex-worker/second", "codex-proxy",
		"worker-prepare", "second")

	// A codex by hand keeps the unit from its start, which succeeds after that has ended.
	b.MustRun(t, "systemctl", "stop", second)
	end := hand(b, home)
	_, _, err := b.Run(t.Context(), "systemctl", "start", second)
	require.Error(t, err)
	b.UntilShow(second, "StatusText", "Not started: "+strings.Replace(byUnit, second, "my shell", 1)+": try again")
	refused("in use by my shell", "codex-proxy", "accounts", "remove", "second", "--purge")
	b.MustRun(t, "test", "-e", home+"/config.toml")
	end()
	b.MustRun(t, "codex-proxy", "accounts", "remove", "second", "--purge")
	_, _, err = b.Run(t.Context(), "test", "-e", "/var/lib/private/codex-worker/second")
	require.Error(t, err)

	// A file that root has put there prevents a start, with a remedy.
	b.MustRun(t, "sh", "-ec", "cd "+nativeHome+"; mkdir of-root; echo x >of-root/x; chmod -R go= of-root")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", bed.WorkerUnit)
	require.Error(t, err)
	var status string
	b.UntilShown(bed.WorkerUnit, func(v map[string]string) bool {
		status = v["StatusText"]
		return strings.Contains(status, nativeHome+"/of-root belongs to another user, and the worker cannot use it: `")
	}, "StatusText")
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	bed.Follow(b, strings.Split(status, "`")[1])
	b.MustRun(t, "systemctl", "reset-failed", bed.WorkerUnit)
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	assert.Equal(t, bed.UID(b, bed.WorkerUnit), bed.Trim(b.MustRun(t, "stat", "--format=%u", nativeHome+"/of-root/x")))
	b.Until("the starts that failed are forgotten", bed.Well)
	bed.DoctorFindsNothing(b)
}

// hand holds the lock of a home by hand, until the returned function is called.
func hand(b *bed.Bed, home string) (end func()) {
	b.T.Helper()
	reader, writer := pipe(b.T)
	said := &bed.Watched{Want: heldWord, Came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.T.Context(), machine.Exec{Args: holding(home), Stdin: reader, Stdout: said, Stderr: said})
	}()
	select {
	case <-said.Came:
	case err := <-ended:
		require.NoError(b.T, err, said.String())
	}
	return func() {
		require.NoError(b.T, writer.Close())
		require.Error(b.T, <-ended, "the shell ends its input")
	}
}
