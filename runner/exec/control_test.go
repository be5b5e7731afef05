package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/disk"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/session"
)

// client is a connection to the control socket.
type client struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Scanner
}

func (b *bed) dial() *client {
	b.t.Helper()
	conn, err := net.Dial("unix", b.socket())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(patience)))
	return &client{b.t, conn, bufio.NewScanner(conn)}
}

func (c *client) ask(request string) Reply {
	c.t.Helper()
	_, err := c.conn.Write([]byte(request + "\n"))
	require.NoError(c.t, err)
	require.True(c.t, c.lines.Scan(), "%v", c.lines.Err())
	var reply Reply
	require.NoError(c.t, json.Unmarshal(c.lines.Bytes(), &reply))
	assert.Equal(c.t, session.Version, reply.Version)
	return reply
}

// begin runs the command until its preparation has been reached. goOn lets it go on, end waits for the end.
func (b *bed) begin() (goOn func(), end func() *session.Result) {
	reached, release := make(chan struct{}), make(chan struct{})
	b.Preparations = []Preparation{preparation(func(context.Context, *Launch) error {
		close(reached)
		<-release
		return nil
	})}
	done := make(chan error, 1)
	go func() { done <- b.Run(b.t.Context()) }()
	<-reached
	return func() { close(release) }, func() *session.Result {
		b.t.Helper()
		require.NoError(b.t, <-done)
		result, _ := b.left()
		return result
	}
}

func TestCancel(t *testing.T) {
	b := newBed(t, shell("exec sleep 1000"))
	goOn, end := b.begin()
	c := b.dial()
	assert.Zero(t, c.ask(`{"version":1,"do":"status"}`).PID)
	goOn()
	reply := b.dial().ask(`{"version":1,"do":"cancel","by":"alice"}`)
	assert.Equal(t, session.Cancelled, reply.Cause)
	result := end()
	assert.Equal(t, session.Cancelled, result.Cause)
	assert.Equal(t, "alice", result.CancelledBy)
	if result.Exited {
		assert.Equal(t, int(unix.SIGTERM), result.Signal)
	}
}

// The first cause counts, and a command that is cancelled before its start does not run.
func TestCancelBeforeTheStart(t *testing.T) {
	b := newBed(t, shell("echo ran"))
	goOn, end := b.begin()
	c := b.dial()
	assert.Equal(t, session.Cancelled, c.ask(`{"version":1,"do":"cancel","by":"alice"}`).Cause)
	assert.Equal(t, session.Cancelled, c.ask(`{"version":1,"do":"cancel","by":"bob"}`).Cause)
	goOn()
	result := end()
	assert.Equal(t, &session.Failure{Stage: session.StartStage, Text: "it was cancelled before its start"}, result.Failure)
	assert.Equal(t, "alice", result.CancelledBy)
	assert.Zero(t, result.Bytes)
}

func TestMistakenRequests(t *testing.T) {
	b := newBed(t, shell("true"))
	goOn, end := b.begin()
	for request, want := range map[string]string{
		`{"version":1,"do":"dance"}`:  `"dance" is unknown: use cancel, status, follow, provide, release, shell, attach or port`,
		`{"version":2,"do":"status"}`: "the request has the version 2, this session knows 1",
		`cancel`:                      "the request is no JSON object",
	} {
		c := b.dial()
		assert.Contains(t, c.ask(request).Error, want)
		assert.False(t, c.lines.Scan(), "the connection ends")
	}
	goOn()
	assert.Empty(t, end().Cause)
}

// The end of systemd's patience, SIGTERM, cancels.
func TestStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, _ := newBed(t, shell("exec sleep 1000")).run(ctx)
	assert.Equal(t, session.Cancelled, result.Cause)
	assert.Equal(t, "systemd", result.CancelledBy)
}

// Whoever follows gets each phase, and the last one when the result is written.
func TestFollow(t *testing.T) {
	b := newBed(t, shell("echo out"))
	goOn, end := b.begin()
	c := b.dial()
	assert.Equal(t, Preparing, c.ask(`{"version":1,"do":"follow"}`).Phase)
	goOn()
	var phases []Phase
	for c.lines.Scan() {
		var reply Reply
		require.NoError(t, json.Unmarshal(c.lines.Bytes(), &reply))
		phases = append(phases, reply.Phase)
	}
	assert.Equal(t, Ended, phases[len(phases)-1])
	assert.Zero(t, end().Status)
}

// Both release and cancel end a hold, and do not change how the command ended.
func TestHold(t *testing.T) {
	for _, request := range []string{`{"version":1,"do":"release"}`, `{"version":1,"do":"cancel","by":"alice"}`} {
		spec := shell("exit 3")
		spec.Hold = patience
		b := newBed(t, spec)
		goOn, end := b.begin()
		c := b.dial()
		c.ask(`{"version":1,"do":"follow"}`)
		goOn()
		for held := false; !held; {
			require.True(t, c.lines.Scan())
			var reply Reply
			require.NoError(t, json.Unmarshal(c.lines.Bytes(), &reply))
			held = reply.Phase == Held
		}
		result, _ := b.left()
		assert.Equal(t, 3, result.Status, "the result is there")
		b.dial().ask(request)
		assert.Empty(t, end().Cause)
	}
}

// A command that succeeds, is cancelled or has no workspace of its own is not held.
func TestNotHeld(t *testing.T) {
	spec := shell("true")
	spec.Hold = patience
	result, _ := newBed(t, spec).run(t.Context())
	assert.Zero(t, result.Status)

	spec.Workspace, spec.Repository = &session.Workspace{Commit: strings.Repeat("0", 40)}, "0123456789abcdef"
	b := newBed(t, spec)
	b.Preparations = []Preparation{Workspace{Repository: t.TempDir()}}
	result, _ = b.run(t.Context())
	assert.Equal(t, session.WorkspaceTask, result.Failure.Stage)
	assert.Contains(t, result.Failure.Text, "fetch it again")

	spec = shell("exec sleep 1000")
	spec.Hold = patience
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, _ = newBed(t, spec).run(ctx)
	assert.Equal(t, session.Cancelled, result.Cause)
}

func TestProvide(t *testing.T) {
	b := newBed(t, shell("true"))
	reached := make(chan struct{})
	b.Preparations = []Preparation{preparation(func(ctx context.Context, l *Launch) error {
		close(reached)
		return l.Provide(ctx, &Need{Key: "k"})
	})}
	done := make(chan error, 1)
	go func() { done <- b.Run(t.Context()) }()
	<-reached
	c := b.dial()
	for reply := c.ask(`{"version":1,"do":"follow"}`); reply.Need == nil; {
		require.True(t, c.lines.Scan())
		require.NoError(t, json.Unmarshal(c.lines.Bytes(), &reply))
	}
	assert.Contains(t, b.dial().ask(`{"version":1,"do":"provide","key":"other"}`).Error, "does not wait for the environment")
	assert.Empty(t, b.dial().ask(`{"version":1,"do":"provide","key":"k","fault":"no pip"}`).Error)
	require.NoError(t, <-done)
	result, _ := b.left()
	assert.Equal(t, &session.Failure{Stage: session.EnvTask, Text: "no pip"}, result.Failure)
}

func TestDisk(t *testing.T) {
	spec := shell("head -c 1000000 /dev/zero >file; ln file same; exec sleep 1000")
	spec.Disk = 100_000
	b := newBed(t, spec)
	b.Disk = disk.Files{Dirs: []string{b.Workspace}}
	result, _ := b.run(t.Context())
	assert.Equal(t, session.DiskFull, result.Cause)
}

func TestShell(t *testing.T) {
	b := newBed(t, shell("exec sleep 1000"))
	b.Environ = append(b.Environ, "MINE=x")
	goOn, end := b.begin()
	assert.Contains(t, b.dial().ask(`{"version":1,"do":"shell"}`).Error, "there is no workspace yet")
	f := b.dial()
	f.ask(`{"version":1,"do":"follow"}`)
	goOn()
	require.True(t, f.lines.Scan())

	conn, err := net.Dial("unix", b.socket())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte(`{"version":1,"do":"shell","rows":30,"columns":90,"term":"dumb"}` + "\n"))
	require.NoError(t, err)
	input := bufio.NewReader(conn)
	_, err = input.ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, wire.WriteShellFrame(conn, wire.ShellData, []byte("stty size; pwd; (sleep 5 &); kill -TERM $$; exit 4\n")))
	var shown []byte
	for {
		kind, payload, err := wire.ReadShellFrame(input)
		require.NoError(t, err)
		if kind == wire.ShellExit {
			assert.Equal(t, []byte{0, 0, 0, 4}, payload, "an interactive shell ignores SIGTERM")
			break
		}
		shown = append(shown, payload...)
	}
	assert.Contains(t, string(shown), "30 90\r\n")
	assert.Contains(t, string(shown), b.Workspace+"\r\n")

	// A client that goes away ends its shell; the command goes on.
	other := b.dial()
	other.ask(`{"version":1,"do":"shell","rows":1,"columns":1,"term":"dumb"}`)
	require.NoError(t, other.conn.Close())
	b.dial().ask(`{"version":1,"do":"cancel","by":"alice"}`)
	assert.Equal(t, session.Cancelled, end().Cause)
}

// flaky is a listener that has no file for its first connections.
type flaky struct {
	net.Listener

	failures int
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.failures--; f.failures >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: unix.EMFILE}
	}
	return f.Listener.Accept()
}

// A command can be cancelled again when there is a file for the connection.
func TestConnectionsWithoutFiles(t *testing.T) {
	path := t.TempDir() + "/control"
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	r, ctx := newRun(&session.Spec{}, &logs.Writer{})
	c := serve(&flaky{listener, 2}, r)
	defer c.close()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte(`{"version": 1, "do": "cancel", "by": "alice"}` + "\n"))
	require.NoError(t, err)
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		require.Fail(t, "the command is not cancelled")
	}
}

// A process of the session sets its own limits and no other's.
func TestLimitsOfOthersStay(t *testing.T) {
	b := newBed(t, session.Spec{
		Args:    []string{"sh", "-c", "ulimit -n 99 && ulimit -n && prlimit --pid $PPID --nofile=3:3; prlimit --pid $PPID --nofile --noheadings >/dev/null && echo read"},
		Timeout: patience, OutputLimit: 1 << 20,
	})
	_, output := b.run(t.Context())
	assert.Contains(t, output, "99\n")
	assert.Contains(t, output, "prlimit: failed to set the NOFILE resource limit: Operation not permitted\n")
	assert.Contains(t, output, "read\n")
}
