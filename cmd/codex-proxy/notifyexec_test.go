package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/probe"
	"codex-proxy/codex/versions"
	"codex-proxy/internal/refusal"
	"codex-proxy/test/codexes"
	"codex-proxy/workers/homelock"
)

func TestNotifyExecMisuse(t *testing.T) {
	for args, complaint := range map[string]string{
		"":                                     "no command: put it last, after --",
		"--probe tcp:127.0.0.1:1":              "no command",
		"--prob x -- true":                     `unknown option --prob (did you mean "--probe"?); see codex-proxy notify-exec --help`,
		"--probe ftp:x -- true":                `--probe=ftp:x: unknown kind "ftp": want appserver:unix:PATH, tcp:`,
		"--probe grpc:x -- true":               "--probe=grpc:x: want grpc:HOST:PORT",
		"--probe-status 2x -- true":            "--probe-status=2x: want statuses of HTTP, such as 200 or 200,204",
		"--probe-status 200 -- true":           "--probe-status needs --probe KIND:TARGET",
		"--probe-status 200 --probe tcp:a:1 x": "--probe-status: only a probe http: has it",
		"--probe-status 99 --probe http://a x": "--probe-status: 99 is no status of HTTP",
		"--ready tcp:a:1 -- true":              "--ready needs --probe KIND:TARGET",
		"--probe tcp:a:1 --ready tcp:1 x":      "--ready=tcp:1: want tcp:HOST:PORT",
		"--probe-passes 2 -- true":             "--probe-passes needs --probe",
		"--probe-passes 0 -- true":             "--probe-passes=0: want a number from 1 to 100",
		"--probe-interval 2s -- true":          "--probe-interval needs --probe",
		"--probe-timeout 3s --probe-interval 2s --probe tcp:a:1 x": "3s is longer than --probe-interval 2s",
		"--probe-body ok --probe tcp:a:1 x":                        "--probe-body: only a probe http: has it",
		"--probe-ca /c --probe grpc:a:1 x":                         "--probe-ca: only the probes https: and grpcs: have it",
		"--probe-ca c --probe grpcs:a:1 x":                         "--probe-ca: give an absolute path",
		"--probe appserver:/run/s -- true":                         "want appserver:unix:/absolute/path",
		"--probe appserver:unix:s -- true":                         "want appserver:unix:/absolute/path",
		"--probe tcp:80 -- true":                                   "want tcp:HOST:PORT",
		"--probe http:localhost -- true":                           "want http:URL",
		"--probe http:unix:s -- true":                              "want http:unix:/absolute/path",
		"--probe exec: -- true":                                    "want exec:LINE",
		"--probe exec:a --probe exec:b x":                          "only one probe is possible",
		"--probe-timeout 3 -- true":                                "--probe-timeout=3: want a positive time with its unit",
		"--probe-timeout -3s -- true":                              "--probe-timeout=-3s: want a positive time with its unit",
		"--lock /x -- true":                                        "want HOLDER:DIR or HOLDER:FILE",
		"--lock x:y -- true":                                       "want HOLDER:DIR or HOLDER:FILE",
		"--relay x -- true":                                        "--relay needs --relay-to PATH",
		"--relay-to /x -- true":                                    "--relay-to needs --relay NAME",
		"--relay x --relay-to y -- true":                           `--relay-to "y": give an absolute path`,
		"--relay x --relay-to /y -- true":                          `--relay x: cannot find the inherited socket "x": the service manager passed none`,
	} {
		t.Run(args, func(t *testing.T) {
			status, stdout, stderr := runNotifyExec(t, t.Context(), strings.Fields(args)...)
			assert.Equal(t, 64, status)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, complaint)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
		})
	}
}

func TestNotifyExecHelp(t *testing.T) {
	status, stdout, stderr := runNotifyExec(t, t.Context(), "--help")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "\nExit status: that of COMMAND;")
	assert.Empty(t, stderr)
	for _, kind := range probe.Kinds() {
		assert.Contains(t, stdout, "  "+kind)
		assert.Contains(t, try(t, "__complete", "notify-exec", "--probe", "").stdout, kind+"\n")
		assert.Contains(t, try(t, "__complete", "notify-exec", "--ready", "").stdout, kind+"\n")
	}
}

func TestNotifyExecStatus(t *testing.T) {
	status, _, _ := runNotifyExec(t, t.Context(), "--", "/bin/sh", "-c", "exit 3")
	assert.Equal(t, 3, status)
	status, _, stderr := runNotifyExec(t, t.Context(), "/nowhere/codex")
	assert.Equal(t, 203, status)
	assert.Equal(t, "codex-proxy notify-exec: cannot start \"/nowhere/codex\": no such file or directory\n", stderr)
}

// COMMAND inherits the lock, and does not start while another process has it.
func TestNotifyExecLock(t *testing.T) {
	home := t.TempDir()
	lock := "--lock=my.service:" + home
	status, _, stderr := runNotifyExec(t, t.Context(), lock, "--", "sh", "-c", "test /dev/fd/3 -ef "+
		filepath.Join(home, homelock.FileName))
	assert.Zero(t, status, stderr)
	held, err := homelock.Take(t.Context(), home, "another")
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Release()) }()
	status, _, stderr = runNotifyExec(t, t.Context(), lock, "--", "true")
	assert.Equal(t, 75, status)
	assert.Contains(t, stderr, "the home "+home+" is in use by another, and has one writer at a time")
}

// The same with a file, which COMMAND's own child holds after the end of COMMAND.
func TestNotifyExecLockFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.lock")
	lock := "--lock=my.service:" + file
	child := filepath.Join(t.TempDir(), "pid")
	status, _, stderr := runNotifyExec(t, t.Context(), lock, "--", "sh", "-c",
		"test /dev/fd/3 -ef "+file+" && { sleep 600 >/dev/null 2>&1 & echo $! >"+child+"; }")
	assert.Zero(t, status, stderr)
	next := fakeManager(t)
	status, _, stderr = runNotifyExec(t, t.Context(), lock, "--", "true")
	assert.Equal(t, 75, status)
	assert.Contains(t, stderr, "the lock "+file+" is held by another process")
	assert.Equal(t, "STATUS=Not started: the lock "+file+" is held by another process", next())
	text, err := os.ReadFile(child)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	status, _, stderr = runNotifyExec(t, t.Context(), lock, "--", "true")
	assert.Zero(t, status, stderr)
}

// A refusal of this start keeps COMMAND from it, with the reason in all places; that of another start does not.
func TestNotifyExecRefused(t *testing.T) {
	refused := filepath.Join(t.TempDir(), "x")
	t.Setenv("INVOCATION_ID", "a")
	require.NoError(t, refusal.Write(refused, "port 1 is held by pid 2 (x)"))
	next := fakeManager(t)
	status, _, stderr := runNotifyExec(t, t.Context(), "--refused", refused, "--", "true")
	assert.Equal(t, 75, status)
	assert.Contains(t, stderr, "codex-proxy notify-exec: port 1 is held by pid 2 (x)\n")
	assert.Equal(t, "STATUS=Not started: port 1 is held by pid 2 (x)", next())
	for _, command := range []string{"notify-exec", "lock-exec"} {
		var stderr strings.Builder
		made := filepath.Join(t.TempDir(), "made")
		status := run(t.Context(), []string{command, "--refused", refused, "--", "touch", made}, io.Discard, &stderr)
		assert.Equal(t, map[string]int{"notify-exec": 75, "lock-exec": 0}[command], status, stderr.String())
		assert.NoFileExists(t, made)
	}
	t.Setenv("INVOCATION_ID", "b")
	status, _, stderr = runNotifyExec(t, t.Context(), "--refused", refused, "--", "true")
	assert.Zero(t, status, stderr)
}

// Two statuses forbid a restart of the unit. A server that exits with one of them is restarted all the same.
func TestNotifyExecStatusOfAServer(t *testing.T) {
	refused := filepath.Join(t.TempDir(), "x")
	for status, want := range map[string]int{"75": 1, "78": 1, "3": 3, "0": 0} {
		got, _, stderr := runNotifyExec(t, t.Context(), "--refused", refused, "--", "sh", "-c", "exit "+status)
		assert.Equal(t, want, got, stderr)
		assert.Equal(t, want == 1, strings.Contains(stderr, `"status":`+status), stderr)
	}
	got, _, _ := runNotifyExec(t, t.Context(), "--", "sh", "-c", "exit 75")
	assert.Equal(t, 75, got, "of a unit that has no refusals")
}

func TestNotifyExecWatchdogNeedsProbe(t *testing.T) {
	fakeManager(t)
	t.Setenv("WATCHDOG_USEC", "3000000")
	status, _, stderr := runNotifyExec(t, t.Context(), "--", "true")
	assert.Equal(t, 64, status)
	assert.Contains(t, stderr, "no --probe although the unit has WatchdogSec=")
}

// Two probes in a row fit into WatchdogSec=.
func TestNotifyExecWatchdogFits(t *testing.T) {
	for times, want := range map[string]string{
		"--probe-interval 2s --probe-timeout 999ms": "",
		"--probe-interval 1999ms":                   "",
		"--probe-interval 2s":                       "2s and --probe-timeout 1s do not fit into WatchdogSec=3s",
		"--probe-interval 3s":                       "--probe-interval 3s and --probe-timeout 1s do not fit",
		"--probe-interval 2s --probe-timeout 1s":    "at least twice the interval, and longer than both together",
	} {
		fakeManager(t)
		t.Setenv("WATCHDOG_USEC", "3000000")
		args := append(strings.Fields(times), "--probe", "exec:true", "--", "true")
		status, _, stderr := runNotifyExec(t, t.Context(), args...)
		if want == "" {
			assert.Zero(t, status, stderr)
			continue
		}
		assert.Equal(t, 64, status, times)
		assert.Contains(t, stderr, want)
	}
}

// READY=1 needs the probe and every --ready, as often as --probe-passes.
func TestNotifyExecReady(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	wanted, trapped := filepath.Join(t.TempDir(), "wanted"), filepath.Join(t.TempDir(), "trapped")
	detail := "tcp " + l.Addr().String() + ", test -e " + wanted + ", test -e " + trapped
	next := fakeManager(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		assert.Equal(t, "STATUS=Starting: test -e "+wanted+": exit status 1", next())
		assert.NoError(t, os.WriteFile(wanted, nil, 0o600))
		assert.Equal(t, "STATUS=Starting: "+detail+", pass 1 of 2", next("STATUS=Starting: test -e "+trapped))
		assert.Contains(t, next(), "READY=1\nSTATUS=Ready: "+detail+", started in ")
	}()
	status, _, stderr := runNotifyExec(t, ctx, "--probe", "tcp:"+l.Addr().String(), "--ready", "exec:test -e "+wanted,
		"--ready", "exec:test -e "+trapped, "--probe-passes", "2",
		"--", "/bin/sh", "-c", "trap 'exit 4' TERM; touch "+trapped+"; while :; do sleep 0.05; done")
	assert.Equal(t, 4, status, stderr)
}

func TestNotifyExecProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	marker := filepath.Join(t.TempDir(), "up")
	for probe, ready := range map[string]string{
		"tcp:" + l.Addr().String(): "READY=1\nSTATUS=Ready: tcp " + l.Addr().String() + ", started in ",
		"exec:test -e " + marker:   "READY=1\nSTATUS=Ready: test -e " + marker + ", started in ",
	} {
		t.Run(probe, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(marker))
			next := fakeManager(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				assert.Contains(t, next("STATUS=Starting: "), ready)
				// The shell must have set its trap before it is stopped: else it
				// dies of the signal, and so, as it should, do we.
				assert.Eventually(t, func() bool { _, err := os.Stat(marker); return err == nil }, bound, time.Millisecond)
			}()
			status, _, _ := runNotifyExec(t, ctx, "--probe", probe, "--", "/bin/sh", "-c", "trap 'exit 4' TERM; touch "+marker+"; while :; do sleep 0.05; done")
			assert.Equal(t, 4, status)
		})
	}
}

// The whole way with the real codex: ready, probed as its watchdog wants, stopped. codex 0.140 does not end after a
// handshake that was given up, as on a busy machine: it has 100 seconds for the one before READY=1, and no other.
func TestNotifyExecCodex(t *testing.T) { codexes.Each(t, versions.Oldest, testNotifyExecCodex) }

func testNotifyExecCodex(t *testing.T, minor int, codex string) {
	home := t.TempDir()
	t.Setenv("CODEX_HOME", home)
	probed, interval := minor > versions.Oldest, "5s"
	t.Setenv("WATCHDOG_USEC", "60000000")
	if !probed {
		interval = "140s"
		t.Setenv("WATCHDOG_USEC", "300000000")
	}
	socket := filepath.Join(home, "app.sock")
	next := fakeManager(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		assert.Regexp(t, `^READY=1\nSTATUS=Ready: codex \d+\.\d+\.\d+, [1-9]\d* models, started in [0-9.]+m?s$`, next("STATUS=Starting: "))
		if probed {
			assert.Equal(t, "WATCHDOG=1", next())
		}
	}()
	status, _, stderr := runNotifyExec(t, ctx, "--probe", "appserver:unix:"+socket, "--probe-interval", interval, "--stop-timeout", "3m",
		"--", codex, "app-server", "--listen", "unix://"+socket)
	assert.Zero(t, status, stderr)
	assert.Regexp(t, `^STOPPING=1\n`, next("WATCHDOG=1"))
	assert.Regexp(t, `^STATUS=Ended: exit status 0 after `, next())
}

func runNotifyExec(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	status = run(ctx, append([]string{"notify-exec"}, args...), &out, &talk)
	return status, out.String(), talk.String()
}

// fakeManager sets NOTIFY_SOCKET for the test. next waits for the next message that
// begins with none of the given prefixes; after a time without any it is empty.
func fakeManager(t *testing.T) (next func(skipped ...string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func(skipped ...string) string {
		for {
			buffer := make([]byte, 8192)
			_ = conn.SetReadDeadline(time.Now().Add(bound))
			size, err := conn.Read(buffer)
			if err != nil {
				return ""
			}
			if message := string(buffer[:size]); !startsWithAny(message, skipped) {
				return message
			}
		}
	}
}

func startsWithAny(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func TestNotifyExecCertificates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	for _, c := range []struct{ set, want string }{{"", ""}, {"", path}, {"/own.pem", "/own.pem"}} {
		if c.want == path {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		t.Setenv("SSL_CERT_FILE", c.set)
		if c.set == "" {
			require.NoError(t, os.Unsetenv("SSL_CERT_FILE"))
		}
		var stderr strings.Builder
		line := fmt.Sprintf(`test "$SSL_CERT_FILE" = "%s"`, c.want)
		assert.Zero(t, run(t.Context(), []string{"notify-exec", "--certificates", path, "--", "sh", "-c", line}, io.Discard, &stderr), stderr.String())
	}
}
