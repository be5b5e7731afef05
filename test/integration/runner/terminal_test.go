package runner

import (
	"bufio"
	"errors"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/pty"
)

// terminal runs a command in a terminal of alice: keys and Ctrl-C are for the command, and the terminal is as it was
// afterwards. It follows users.
func (b *daemonBed) terminal(t *testing.T) {
	emulator, stream := pty.Open(t)
	pty.Resize(t, emulator, 33, 99)
	uid, err := strconv.Atoi(strings.TrimSpace(b.MustRun(t, "id", "-u", "alice")))
	require.NoError(t, err)
	require.NoError(t, stream.Chown(uid, -1))
	before, err := unix.IoctlGetTermios(int(stream.Fd()), unix.TCGETS)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(t.Context(), machine.Exec{
			Args: []string{"runuser", "-u", "alice", "--", "env", "TERM=vt100", "codex-runner", "run", "--tty", "--", "sh", "-c",
				`trap 'echo stopped; exit 9' INT; tty >/dev/null && echo "$TERM $(stty size)"
				read line; echo "got $line" >&2; while :; do sleep 0.05; done`},
			Stdin: stream, Stdout: stream, Stderr: stream,
		})
	}()
	_, err = emulator.WriteString("typed\r")
	require.NoError(t, err)
	screen := bufio.NewReader(emulator)
	watch := time.AfterFunc(bed.Bound, func() { _ = stream.Close() })
	defer watch.Stop()
	shown := ""
	for !strings.Contains(shown, "got typed\r\n") {
		line, err := screen.ReadString('\n')
		require.NoError(t, err, shown)
		shown += line
	}
	assert.Contains(t, shown, "vt100 33 99\r")
	_, err = emulator.WriteString("\x03")
	require.NoError(t, err)
	var exit *exec.ExitError
	require.True(t, errors.As(<-ended, &exit), shown)
	assert.Equal(t, 9, exit.ExitCode())
	line, err := screen.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "^Cstopped\r\n", line)
	after, err := unix.IoctlGetTermios(int(stream.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.Equal(t, before, after, "it is as it was")

	// After su, the terminal belongs to another user.
	shown = b.MustRun(t, "script", "-qec", "runuser -u alice -- codex-runner run --tty -- sh -c 'tty -s && echo mine'", "/dev/null")
	assert.Contains(t, shown, "mine\r")

	var page wire.Sessions
	b.send(http.MethodGet, "/v1/sessions?limit=2&all=true", nil, &page)
	output, c := b.follow(page.Sessions[1].ID, 1)
	assert.Equal(t, 9, c.Outcome.Status)
	assert.Contains(t, string(output), "vt100 33 99\r\n", "the log has the screen")
	assert.True(t, strings.HasSuffix(string(output), "got typed\r\n^Cstopped\r\n"), "%q", output)
}
