package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
)

// shortDir is a directory whose path leaves room for a socket's name: 107 bytes
// is all that a socket's path can have.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// running starts a command and returns a function that ends it and returns its result.
func running(t *testing.T, args ...string) (end func() result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var stdout, stderr strings.Builder
	status := make(chan int, 1)
	go func() { status <- run(ctx, args, &stdout, &stderr) }()
	return func() result {
		cancel()
		s := received(t, status)
		return result{s, stdout.String(), stderr.String()}
	}
}

// dialled connects as soon as something listens at path.
func dialled(ctx context.Context, t *testing.T, path string) *appserver.Conn {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		conn, err := appserver.Dial(ctx, path, appserver.Options{})
		if err == nil {
			return conn
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			require.NoError(t, errors.Join(err, ctx.Err()))
		}
	}
}

func TestDemoAppServerSpeaksTheProtocol(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	require.NoError(t, os.WriteFile(path, nil, 0o600), "what a killed predecessor left")
	end := running(t, "app-server", "--strict-config", "--listen", "unix://"+path)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn := dialled(ctx, t, path)
	ran := make(chan error, 1)
	go func() { ran <- conn.Run(ctx) }()

	hello, err := conn.Initialize(ctx)
	require.NoError(t, err)
	assert.Contains(t, hello.UserAgent, "demo")
	models, err := conn.Models(ctx)
	require.NoError(t, err)
	require.Len(t, models, 1)
	assert.Equal(t, "demo", models[0].ID)

	turn, err := conn.StartTurn(ctx, appserver.TurnRequest{Model: "demo", Items: []history.Item{history.TextMessage("user", "ping")}})
	require.NoError(t, err)
	var answer strings.Builder
	for {
		event, err := turn.Next(ctx)
		require.NoError(t, err)
		if delta, ok := event.(appserver.TextDelta); ok {
			answer.WriteString(delta.Text)
		}
		if done, ok := event.(appserver.TurnCompleted); ok {
			assert.Equal(t, appserver.TurnCompletedOK, done.Status)
			break
		}
	}
	assert.Contains(t, answer.String(), `"ping"`)
	require.NoError(t, turn.Close(ctx))
	assert.Equal(t, result{}, end())
	require.ErrorIs(t, received(t, ran), rpc.ErrLost)
}

func TestDemoAppServerMisuse(t *testing.T) {
	for _, args := range [][]string{{}, {"--listen", "stdio://"}, {"--listen", "unix:///x", "more"}} {
		got := try(t, append([]string{"app-server"}, args...)...)
		assert.Equal(t, exitUsage, got.status, args)
	}
	got := try(t, "app-server", "--listen", "unix:///nowhere/s")
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "cannot listen on /nowhere/s")
}
