package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
		`{"version":1,"do":"dance"}`:  `"dance" is unknown: use cancel or status`,
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
