package exec

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// inTerminal is a script in a terminal of 24 rows and 80 columns.
func inTerminal(script string) session.Spec {
	spec := shell(script)
	spec.Terminal, spec.Env = &session.Terminal{Rows: 24, Columns: 80}, map[string]string{"TERM": "vt100"}
	return spec
}

// attach makes a client of the terminal.
func (b *bed) attach(rows, columns int) (net.Conn, Reply) {
	b.t.Helper()
	c := b.dial()
	return c.conn, c.ask(fmt.Sprintf(`{"version":1,"do":"attach","rows":%d,"columns":%d}`, rows, columns))
}

func (b *bed) types(conn net.Conn, keys string) {
	b.t.Helper()
	require.NoError(b.t, wire.WriteShellFrame(conn, wire.ShellData, []byte(keys)))
}

// shows awaits a text in the log.
func (b *bed) shows(want string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		output, err := os.ReadFile(filepath.Join(b.dir, paths.Output))
		return err == nil && strings.Contains(string(output), want)
	}, patience, time.Millisecond, want)
}

// All three streams are a terminal of the client's size, the log has the screen, and Ctrl-C is for the command.
func TestTerminal(t *testing.T) {
	b := newBed(t, inTerminal(`test -t 0 && test -t 1 && test -t 2 && echo $TERM; stty size; read line; stty size
		echo "got $line" >&2; trap 'echo interrupted; exit 7' INT; echo waits; while :; do sleep 0.01; done`))
	goOn, end := b.begin()
	_, reply := b.attach(1, 1)
	assert.Equal(t, "the command has no terminal", reply.Error, "it has none yet")
	f := b.dial()
	f.ask(`{"version":1,"do":"follow"}`)
	goOn()
	require.True(t, f.lines.Scan())
	b.shows("vt100\r\n24 80\r\n")
	conn, reply := b.attach(30, 90)
	require.Empty(t, reply.Error)
	size := binary.BigEndian.AppendUint16([]byte{0, 50}, 132)
	require.NoError(t, wire.WriteShellFrame(conn, wire.ShellSize, size))
	b.types(conn, "a line\r")
	b.shows("50 132\r\ngot a line\r\nwaits\r\n")
	require.NoError(t, conn.Close(), "the command goes on without a client")
	conn, _ = b.attach(50, 132)
	b.types(conn, "\x03")
	result := end()
	assert.Equal(t, 7, result.Status)
	_, output := b.left()
	assert.Equal(t, "vt100\r\n24 80\r\na line\r\n50 132\r\ngot a line\r\nwaits\r\n^Cinterrupted\r\n", output)
}

// The whole output is in the log, also of a command that leaves a process in the terminal, and one without input ends.
func TestTerminalOutputIsWhole(t *testing.T) {
	result, output := newBed(t, inTerminal("sleep 1000 & seq 1 100000; echo end")).run(t.Context())
	assert.Zero(t, result.Status)
	assert.Len(t, output, 588895+100000+5) // of seq, with a \r for each line, and of the last line
	assert.True(t, strings.HasSuffix(output, "\r\n100000\r\nend\r\n"))
	spec := inTerminal("exec yes")
	spec.OutputLimit = 1000
	result, output = newBed(t, spec).run(t.Context())
	assert.Equal(t, session.OutputLimit, result.Cause)
	assert.Equal(t, strings.Repeat("y\r\n", 334)[:1000], output)
}

// A command that reads nothing can be cancelled, and so can a job in the foreground of a shell, with its own group.
func TestTerminalIsCancelled(t *testing.T) {
	b := newBed(t, inTerminal("stty -icanon -echo; echo waits; exec sleep 1000"))
	end := b.running()
	b.shows("waits")
	conn, _ := b.attach(24, 80)
	go func() { // more than the terminal takes
		for wire.WriteShellFrame(conn, wire.ShellData, make([]byte, 60<<10)) == nil {
		}
	}()
	assert.Equal(t, session.Cancelled, end().Cause)

	spec := inTerminal("")
	spec.Args = []string{"sh", "-mc", `trap 'echo caught' TERM
		sh -c 'trap "echo ends; exit" TERM; echo job; while :; do sleep 0.01; done'; echo after`}
	b = newBed(t, spec)
	end = b.running()
	b.shows("job")
	assert.Equal(t, session.Cancelled, end().Cause)
	b.shows("ends\r\ncaught\r\nafter\r\n")
}

// A command that has ended and is held takes no client, and leaves none that it had.
func TestHeldTerminal(t *testing.T) {
	spec := inTerminal("echo waits; read line; exit 3")
	spec.Hold = patience
	b := newBed(t, spec)
	end := b.running()
	b.shows("waits")
	conn, _ := b.attach(24, 80)
	b.types(conn, "\r")
	_, err := conn.Read(make([]byte, 1))
	assert.Error(t, err, "the connection ends")
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	_, reply := b.attach(24, 80)
	assert.Equal(t, "the command does not run", reply.Error)
	assert.Equal(t, 3, end().Status)
}

func TestNoTerminal(t *testing.T) {
	b := newBed(t, shell("exec sleep 1000"))
	end := b.running()
	_, reply := b.attach(24, 80)
	assert.Equal(t, "the command has no terminal", reply.Error)
	end()
}
