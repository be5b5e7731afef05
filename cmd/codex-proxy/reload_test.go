package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon"
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
	stderr := newJournalled()
	ctx, stop := context.WithCancel(t.Context())
	status := make(chan int, 1)
	go func() { status <- run(ctx, args, io.Discard, stderr) }()
	until(t, stderr.lines, `"msg":"listening"`, func(string) {})
	assert.Equal(t, result{exitFailure, "", "codex-proxy reload: " + daemon.ErrAlone.Error() + "\n"}, try(t, "reload"))
	until(t, stderr.lines, `"msg":"reload failed"`, func(string) {})
	stop()
	assert.Equal(t, exitOK, received(t, status))
}
