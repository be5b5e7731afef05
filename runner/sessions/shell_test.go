package sessions

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/test/pty"
)

// held is a session whose command is held.
func held(t *testing.T) (*trial, string) {
	t.Helper()
	r := try(t, func(c *apitest.Command) { c.Hold(cancelled) })
	r.Detach = true
	status, _ := r.run(t)
	require.Zero(t, status)
	id := strings.TrimSpace(r.stdout.String())
	r.daemon.Await(id, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandHeld })
	return r, id
}

func TestShell(t *testing.T) {
	r, id := held(t)
	emulator, stream := pty.Open(t)
	pty.Resize(t, emulator, 24, 80)
	resized := make(chan os.Signal)
	ended := make(chan error)
	shell := Shell{Client: r.Client, Stdin: stream, Term: "vt100", Resized: resized}
	go func() { ended <- shell.Open(t.Context(), id) }()
	screen := bufio.NewReader(emulator)
	line := func() string {
		text, err := screen.ReadString('\n')
		require.NoError(t, err)
		return text
	}
	assert.Equal(t, "vt100 24x80\r\n", line())
	pty.Resize(t, emulator, 50, 132)
	resized <- unix.SIGWINCH
	assert.Equal(t, "50x132\r\n", line())
	_, err := emulator.Write([]byte("exit 7\r"))
	require.NoError(t, err)
	status, text := exit(t, <-ended)
	assert.Equal(t, 7, status)
	assert.Empty(t, text)
	a, err := unix.IoctlGetTermios(int(stream.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.NotZero(t, a.Lflag&unix.ECHO, "the terminal is as it was")
}

// The end of the daemon ends the shell, and leaves the terminal as it was.
func TestShellIsLost(t *testing.T) {
	r, id := held(t)
	emulator, stream := pty.Open(t)
	ended := make(chan error)
	shell := Shell{Client: r.Client, Stdin: stream, Term: "vt100"}
	go func() { ended <- shell.Open(t.Context(), id) }()
	_, err := bufio.NewReader(emulator).ReadString('\n')
	require.NoError(t, err)
	r.daemon.Cut()
	assert.ErrorContains(t, <-ended, "the connection to the shell was lost")
	a, err := unix.IoctlGetTermios(int(stream.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.NotZero(t, a.Lflag&unix.ECHO)
}

func TestShellWantsATerminal(t *testing.T) {
	r, id := held(t)
	err := Shell{Client: r.Client, Stdin: strings.NewReader("")}.Open(t.Context(), id)
	assert.ErrorContains(t, err, "shell works in a terminal, and the standard input is none")
}
