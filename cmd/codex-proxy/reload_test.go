package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/notify"
)

// What only systemctl reload does stands in the help of the command.
func TestReloadTellsWhatItLeavesAlone(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/codex-proxy.service")
	require.NoError(t, err)
	kill := regexp.MustCompile(`(?m)^ExecReload=.* kill (.+)$`).FindSubmatch(unit)
	require.NotNil(t, kill)
	help := try(t, "reload", "--help").stdout
	for name := range strings.FieldsSeq(string(kill[1])) {
		assert.Contains(t, help, name)
	}
}

// Where nobody would follow it to a new process, the one that runs stays.
func TestReloadWithoutAServiceManager(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("RUNTIME_DIRECTORY", dir)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(dir, "no-bus"))
	args := []string{"serve", "--config", configured(t, "")}
	for _, set := range []string{"listen=127.0.0.1:0", "socket_dir=" + dir, "textfile=", "start_timeout=10ms"} {
		args = append(args, "--set", set)
	}
	stderr := &journalled{lines: make(chan string, 1000)}
	ctx, stop := context.WithCancel(t.Context())
	status := make(chan int, 1)
	go func() { status <- run(ctx, args, io.Discard, stderr) }()
	until(t, stderr.lines, `"msg":"listening"`, func(string) {})
	assert.Equal(t, result{exitFailure, "", "codex-proxy reload: " + errAlone.Error() + "\n"}, try(t, "reload"))
	until(t, stderr.lines, `"msg":"reload failed"`, func(string) {})
	stop()
	assert.Equal(t, exitOK, received(t, status))
}

// A start, and a reload with its last steps, must end before systemd ends them.
func TestStartFitsIntoTheUnit(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/codex-proxy.service")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^TimeoutStartSec=(.*)$`).FindSubmatch(unit)
	require.NotNil(t, found)
	limit, err := time.ParseDuration(string(found[1]))
	require.NoError(t, err)
	assert.Less(t, max(storeBound, 2*handoffMargin)+config.MaxStart, limit)
}

// failing is a listener that accepts nothing, for these reasons.
type failing struct {
	net.Listener
	reasons []error
}

func (l *failing) Accept() (net.Conn, error) {
	err := l.reasons[0]
	l.reasons = l.reasons[1:]
	return nil, err
}

func TestReloadsThatCannotBeAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failing{reasons: []error{syscall.EMFILE, syscall.EMFILE, net.ErrClosed}}
		d := &daemon{
			logger: slog.New(slog.DiscardHandler), sockets: notify.Sockets{reloadSocket: {l}},
			handoff: &succession{started: make(chan struct{})},
		}
		close(d.handoff.started)
		assert.NoError(t, d.serveReloads(t.Context()), "it must not end the service")
		assert.Empty(t, l.reasons)
	})
}
