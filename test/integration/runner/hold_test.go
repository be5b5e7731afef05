package runner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// TestRunnerHold holds a command that failed, with a shell in its sandbox. The result is there meanwhile.
func TestRunnerHold(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newRunnerBed(t, suite)
		s := b.session("hold", 1)
		spec := shell("echo kept >file; exit 7")
		spec.Hold = 2 * bed.Bound
		f := s.begin(spec)
		f.until(exec.Held)
		text, err := s.ReadFile(s.file(paths.Result))
		require.NoError(t, err)
		result, err := session.ReadResult(bytes.NewReader(text))
		require.NoError(t, err)
		assert.Equal(t, 7, result.Status)

		terminal := s.dial()
		terminal.send(exec.Request{Do: exec.Shell, Rows: 33, Columns: 77, Term: "dumb"})
		terminal.reply()
		frame := func(kind wire.ShellFrame, payload string) {
			t.Helper()
			require.NoError(t, wire.WriteShellFrame(terminal.conn, kind, []byte(payload)))
		}
		frame(wire.ShellSize, "\x00\x22\x00\x4e")
		frame(wire.ShellData, "stty size; cat file; id -u >mine; stat -c %U:%u /workspace/mine; echo $TERM $PPID; exit 9\n")
		var shown []byte
		for {
			kind, payload, err := wire.ReadShellFrame(terminal.lines)
			require.NoError(t, err)
			if kind == wire.ShellExit {
				assert.Equal(t, "\x00\x00\x00\x09", string(payload))
				break
			}
			shown = append(shown, payload...)
		}
		assert.Contains(t, string(shown), "34 78\r\n")
		assert.Contains(t, string(shown), "kept\r\n")
		assert.Contains(t, string(shown), "dumb ")

		s.control(exec.Request{Do: exec.Release})
		f.until(exec.Ended)
		assert.Equal(t, 7, s.finish().result.Status)

		// Nothing that a command leaves which had to be ended is there during the hold.
		spec = shell(`setsid sh -c 'trap "" TERM; while :; do sleep 4324; done' & exec sleep 4324`)
		spec.Hold, spec.Timeout, spec.Grace = 2*bed.Bound, time.Second, 200*time.Millisecond
		f = s.begin(spec)
		f.until(exec.Held)
		assert.Eventually(t, func() bool { // SIGKILL is sent, the kernel does the rest
			processes, err := s.Processes("")
			return err == nil && !slices.ContainsFunc(processes, func(p machine.Process) bool {
				return strings.Contains(p.Command, "sleep 4324")
			})
		}, bed.Bound, 10*time.Millisecond)
		s.control(exec.Request{Do: exec.Release})
		f.until(exec.Ended)
		assert.Equal(t, session.TimedOut, s.finish().result.Cause)

		spec = shell("exit 0")
		spec.Hold = 2 * bed.Bound
		s.next(spec)
		s.MustRun(t, "timeout", fmt.Sprint(bed.Bound.Seconds()), "systemctl", "start", "--wait", s.unit()) // nothing is held
		assert.Zero(t, s.ending().result.Status)

		spec = shell("head -c 20000000 /dev/zero >file; exec sleep 4321")
		spec.Disk = 10_000_000
		e := s.run(spec)
		require.NotNil(t, e.result)
		assert.Equal(t, session.DiskFull, e.result.Cause)
	})
}
