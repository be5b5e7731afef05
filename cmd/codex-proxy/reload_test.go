package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
