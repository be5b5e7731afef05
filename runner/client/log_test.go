package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

func TestReadLog(t *testing.T) {
	step := make(chan struct{})
	_, c := start(t, func(r *apitest.Command) {
		r.Write(logs.Stdout, "one")
		<-step
		r.Write(logs.Stderr, "two")
		succeed(r)
	})
	s := create(t, c, "sh")
	got, stepped := collect{}, false
	end, err := c.ReadLog(t.Context(), client.Log{Session: s.ID, Command: 1, Follow: true, Sink: func(chunk logs.Chunk) error {
		if !stepped {
			stepped = true
			close(step) // the first chunk came while the command runs
		}
		return got.take(chunk)
	}})
	require.NoError(t, err)
	assert.Equal(t, "out:one err:two ", got.all.String())
	assert.EqualValues(t, 6, end.Offset)

	got = collect{}
	_, err = c.ReadLog(t.Context(), client.Log{Session: s.ID, Command: 1, From: 2, Sink: got.take})
	require.NoError(t, err)
	assert.Equal(t, "out:e err:two ", got.all.String())
	_, err = c.ReadLog(t.Context(), client.Log{Session: s.ID, Command: 1, From: 7, Sink: got.take})
	require.NoError(t, err, "behind the end there is nothing")
}

// Without following, the output of a command that runs ends where it is.
func TestReadLogOfARunningCommand(t *testing.T) {
	written := make(chan struct{})
	_, c := start(t, func(r *apitest.Command) {
		r.Write(logs.Stdout, "one")
		close(written)
		<-r.Cancelled()
		succeed(r)
	})
	s := create(t, c, "sh")
	<-written
	var got collect
	end, err := c.ReadLog(t.Context(), client.Log{Session: s.ID, Command: 1, Sink: got.take})
	require.NoError(t, err)
	assert.Equal(t, "out:one ", got.all.String())
	assert.Nil(t, end.Command.Outcome)
}

// Each connection is cut after a chunk, and the daemon is away for a while after some of them.
func TestReadLogGoesOn(t *testing.T) {
	const chunks = 60
	next := make(chan struct{}, 1)
	daemon, c := start(t, func(r *apitest.Command) {
		for i := range chunks {
			<-next
			r.Write(logs.Stdout, fmt.Sprintf("%d\n", i))
		}
		succeed(r)
	})
	s := create(t, c, "sh")
	next <- struct{}{}
	var got, want string
	for i := range chunks {
		want += fmt.Sprintf("%d\n", i)
	}
	lost, away := 0, false
	_, err := c.ReadLog(t.Context(), client.Log{Session: s.ID, Command: 1, Follow: true,
		Sink: func(chunk logs.Chunk) error {
			got += string(chunk.Data)
			if lost++; lost < chunks {
				if away = lost%10 == 0; away {
					daemon.Down()
				} else {
					daemon.Cut()
				}
				next <- struct{}{}
			}
			return nil
		},
		Lost: func(err error) {
			require.True(t, errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrNotRunning), "%v", err)
			if away {
				away = false
				daemon.Up()
			}
		},
	})
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, chunks, lost)
}

// Connections are cut at any point of a stream that nobody waits for.
func TestReadLogOverCuts(t *testing.T) {
	var daemon *apitest.Daemon
	var want strings.Builder
	begin := make(chan struct{})
	daemon, c := start(t, func(r *apitest.Command) {
		<-begin
		for i := range 3000 {
			text := strings.Repeat(fmt.Sprintln(i), 1+i%100)
			want.WriteString(text)
			r.Write(logs.Stdout, text)
			if i%100 == 99 {
				daemon.Cut()
			}
		}
		succeed(r)
	})
	s := create(t, c, "sh")
	close(begin)
	var got strings.Builder
	end, err := c.ReadLog(t.Context(), client.Log{Session: s.ID, Command: 1, Follow: true, Sink: func(chunk logs.Chunk) error {
		got.Write(chunk.Data)
		return nil
	}})
	require.NoError(t, err)
	assert.EqualValues(t, got.Len(), end.Offset)
	assert.True(t, want.String() == got.String(), "%d of %d bytes", got.Len(), want.Len())
}

func TestReadLogEnds(t *testing.T) {
	daemon, c := start(t, func(r *apitest.Command) {
		r.Write(logs.Stdout, "one")
		<-r.Cancelled()
		r.End(outcome.Outcome{Word: outcome.Cancelled})
	})
	s := create(t, c, "sh")
	log := client.Log{Session: s.ID, Command: 1, Follow: true}

	full := errors.New("full")
	log.Sink = func(logs.Chunk) error { return full }
	_, err := c.ReadLog(t.Context(), log)
	assert.Equal(t, full, err)

	ctx, cancel := context.WithCancelCause(t.Context())
	log.Sink = func(logs.Chunk) error {
		cancel(full)
		return nil
	}
	_, err = c.ReadLog(ctx, log)
	assert.Equal(t, full, err)

	daemon.Down()
	c.SetPatience(0)
	_, err = c.ReadLog(t.Context(), log)
	assert.ErrorIs(t, err, client.ErrNotRunning)
}

// A daemon that accepts connections, and sends nothing, is given up.
func TestReadLogOfADaemonThatCannot(t *testing.T) {
	dir, err := os.MkdirTemp("", "api")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if assert.NoError(t, err) {
			_ = ws.Close(websocket.StatusTryAgainLater, "")
		}
	}))
	server.Listener = listener
	server.Start()
	defer server.Close()
	c := client.New(listener.Addr().String())
	c.SetPatience(100 * time.Millisecond)
	_, err = c.Wait(t.Context(), "aaaaaaaaaaaaaaaa", 1)
	assert.ErrorIs(t, err, client.ErrLost)
}
