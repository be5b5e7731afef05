package sessions

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/test/pty"
)

// desk is a Run in a terminal, with the person before that.
type desk struct {
	*trial

	t        *testing.T
	emulator *os.File
	screen   *bufio.Reader
	terminal *os.File
	resized  chan<- os.Signal
	ended    chan error
}

// sit runs a command in a terminal of 24 rows and 80 columns.
func sit(t *testing.T, run func(*apitest.Command)) *desk {
	t.Helper()
	d := &desk{trial: try(t, run), t: t, ended: make(chan error, 1)}
	d.emulator, d.terminal = pty.Open(t)
	pty.Resize(t, d.emulator, 24, 80)
	d.screen = bufio.NewReader(d.emulator)
	resized := make(chan os.Signal)
	d.resized = resized
	d.TTY, d.Term, d.Stdin, d.Stdout, d.Stderr, d.Resized = true, "vt100", d.terminal, d.terminal, d.terminal,
		resized
	go func() { d.ended <- d.Run.Run(t.Context()) }()
	return d
}

// shows awaits a line on the screen. Each begins at the left.
func (d *desk) shows(want string) {
	d.t.Helper()
	for line := ""; strings.TrimRight(line, "\r\n") != want; {
		var err error
		line, err = d.screen.ReadString('\n')
		require.NoError(d.t, err, want)
		assert.True(d.t, strings.HasSuffix(line, "\r\n"), "%q", line)
	}
}

// types types for the command, which is connected when it has read that.
func (d *desk) types(keys string) {
	d.t.Helper()
	_, err := d.emulator.WriteString(keys)
	require.NoError(d.t, err)
}

// reads returns so many bytes that are typed.
func reads(c *apitest.Command, n int) string {
	text := ""
	for len(text) < n {
		text += <-c.Typed()
	}
	return text
}

// leaves awaits the end: the terminal is as it was.
func (d *desk) leaves() (int, string) {
	d.t.Helper()
	status, text := exit(d.t, <-d.ended)
	a, err := unix.IoctlGetTermios(int(d.terminal.Fd()), unix.TCGETS)
	require.NoError(d.t, err)
	assert.NotZero(d.t, a.Lflag&unix.ECHO, "it shows what is typed")
	assert.NotZero(d.t, a.Lflag&unix.ISIG, "Ctrl-C is a signal")
	return status, text
}

// Keys, Ctrl-C among them, and sizes go to the command, and its output is the screen's.
func TestTTY(t *testing.T) {
	var asked *wire.TTY
	resize := make(chan struct{})
	d := sit(t, func(c *apitest.Command) {
		asked = c.Asked.TTY
		assert.Equal(t, "24x80", <-c.Typed())
		assert.Contains(t, reads(c, 2), "x")
		c.Write(logs.Stdout, "ready\r\n")
		assert.Equal(t, "\x03\r", reads(c, 2))
		close(resize)
		assert.Equal(t, "50x132", <-c.Typed())
		c.Write(logs.Stdout, "bye\r\n")
		c.End(succeeded)
	})
	d.types("x\r")
	d.shows("ready")
	d.types("\x03\r")
	<-resize
	pty.Resize(t, d.emulator, 50, 132)
	d.resized <- unix.SIGWINCH
	d.shows("bye")
	status, text := d.leaves()
	assert.Zero(t, status, text)
	assert.Equal(t, &wire.TTY{Rows: 24, Columns: 80, Term: "vt100"}, asked)
}

// When the daemon starts again, the terminal goes on.
func TestTTYGoesOnWithTheNextDaemon(t *testing.T) {
	down, up := make(chan struct{}), make(chan struct{})
	d := sit(t, func(c *apitest.Command) {
		<-c.Typed()
		close(down)
		<-up
		assert.Equal(t, "24x80", <-c.Typed(), "it connects again")
		c.Write(logs.Stdout, "again\r\n")
		assert.Equal(t, "x", <-c.Typed())
		c.End(succeeded)
	})
	<-down
	d.daemon.Down()
	d.daemon.Up()
	close(up)
	d.shows("again")
	d.types("x")
	status, text := d.leaves()
	assert.Zero(t, status, text)
}

// Signals of others end it as they do without a terminal: the first cancels the command, the next leaves that.
func TestTTYIsRestoredAtSignals(t *testing.T) {
	d := sit(t, func(c *apitest.Command) {
		<-c.Typed()
		c.Write(logs.Stdout, "ready\r\n")
		<-c.Cancelled()
		c.End(cancelled)
	})
	d.shows("ready")
	d.signals <- syscall.SIGTERM
	d.shows("cancelling the command; again to leave it alone")
	status, _ := d.leaves()
	assert.Equal(t, 130, status)

	end := make(chan struct{})
	d = sit(t, func(c *apitest.Command) {
		<-c.Typed()
		c.Write(logs.Stdout, "ready\r\n")
		<-end
		c.End(cancelled)
	})
	d.shows("ready")
	d.signals <- syscall.SIGHUP
	d.signals <- syscall.SIGHUP
	status, text := d.leaves()
	assert.Equal(t, 128+int(syscall.SIGHUP), status)
	assert.Contains(t, text, "left the command before its end")
	close(end)
}

func TestTTYWantsATerminal(t *testing.T) {
	r := try(t, func(c *apitest.Command) { c.End(succeeded) })
	r.TTY = true
	status, text := r.run(t)
	assert.Equal(t, RunnerFailed, status)
	assert.Equal(t, "--tty works in a terminal, and the standard input is none: leave it out", text)
}
