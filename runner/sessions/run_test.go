package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

var (
	succeeded = outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."}
	cancelled = outcome.Outcome{Word: outcome.Cancelled, CancelledBy: "alice", ExitStatus: 130,
		Text: "The command was cancelled by alice."}
)

// trial is a Run with what it leaves behind.
type trial struct {
	Run
	daemon         *apitest.Daemon
	stdout, stderr bytes.Buffer
	signals        chan os.Signal
}

func try(t *testing.T, run func(*apitest.Command)) *trial {
	t.Helper()
	r := &trial{daemon: apitest.Start(t, run), signals: make(chan os.Signal)}
	c := client.New(r.daemon.Socket)
	t.Cleanup(c.Close)
	r.Run = Run{Client: c, Stdin: strings.NewReader(""), Stdout: &r.stdout, Stderr: &r.stderr, Signals: r.signals}
	r.Command.Args = []string{"sh"}
	return r
}

// run returns the exit status, and the text of the error.
func (r *trial) run(t *testing.T) (int, string) {
	t.Helper()
	return exit(t, r.Run.Run(t.Context()))
}

// exit returns what a program makes of err.
func exit(t *testing.T, err error) (int, string) {
	t.Helper()
	if err == nil {
		return 0, ""
	}
	require.True(t, cli.HasStatus(err), "%v", err)
	fail := &cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return err }}
	var text strings.Builder
	status := cli.New("x", "", cli.Group{Commands: []*cobra.Command{fail}}).Run(t.Context(), []string{"fail"}, io.Discard, &text)
	return status, strings.TrimSuffix(strings.TrimPrefix(text.String(), "x fail: "), "\n")
}

func (r *trial) only(t *testing.T) wire.Session {
	t.Helper()
	all, err := r.Client.Sessions(t.Context(), client.Filter{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

func TestRun(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "out\n")
		c.Write(logs.Stderr, "err\n")
		c.End(outcome.Outcome{Word: outcome.Failed, Status: 3, ExitStatus: 3, Text: "The command failed with status 3."})
	})
	status, text := r.run(t)
	assert.Equal(t, 3, status)
	assert.Empty(t, text, "the command has said why")
	assert.Equal(t, "out\n", r.stdout.String())
	assert.Equal(t, "err\n", r.stderr.String())
	assert.Equal(t, wire.SessionClosed, r.only(t).State)
}

func TestRunSaysWhyItEnded(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		c.End(outcome.Outcome{Word: outcome.TimedOut, ExitStatus: 124, Text: "The command ran longer than its time."})
	})
	status, text := r.run(t)
	assert.Equal(t, 124, status)
	assert.Equal(t, "The command ran longer than its time.", text)
}

func TestRunGoesOnInASession(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, string(c.Stdin()))
		c.End(succeeded)
	})
	r.Keep, r.StdinFile, r.Stdin = true, "-", strings.NewReader("one ")
	status, _ := r.run(t)
	require.Zero(t, status)
	s := r.only(t)
	assert.Equal(t, wire.SessionIdle, s.State)

	file := filepath.Join(t.TempDir(), "stdin")
	require.NoError(t, os.WriteFile(file, []byte("two"), 0o600))
	r.Keep, r.Session, r.StdinFile = false, s.ID, file
	status, _ = r.run(t)
	require.Zero(t, status)
	assert.Equal(t, "one two", r.stdout.String())
	assert.Equal(t, wire.SessionIdle, r.only(t).State, "it was there before")

	_, err := r.Client.Cancel(t.Context(), s.ID, 0)
	require.NoError(t, err)
	status, text := r.run(t)
	assert.Equal(t, RunnerFailed, status)
	assert.Equal(t, "the session "+s.ID+" is closed: run the command in a new session", text)
}

func TestRunJSON(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "out")
		c.End(outcome.Outcome{Word: outcome.Signaled, Signal: 11, ExitStatus: 139, Text: "SEGV"})
	})
	r.JSON = true
	status, text := r.run(t)
	assert.Equal(t, 139, status)
	assert.Empty(t, text)
	var s wire.Session
	require.NoError(t, json.Unmarshal(r.stdout.Bytes(), &s))
	assert.Equal(t, wire.SessionClosed, s.State)
	require.Len(t, s.Commands, 1)
	assert.Equal(t, outcome.Signaled, s.Commands[0].Outcome.Word)
	assert.EqualValues(t, 3, s.Commands[0].Usage.Output)

	r.stdout.Reset()
	r.Command.Limits.Timeout = wire.Duration(25 * 3600e9)
	status, text = r.run(t)
	assert.Equal(t, cli.Usage, status)
	assert.Equal(t, "timeout is 25h0m0s: use at most 24h", text)
	assert.JSONEq(t, `{"error":{"code":"invalid_request","message":"timeout is 25h0m0s","remedy":"use at most 24h"}}`,
		r.stdout.String())
}

func TestRunDetached(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		<-c.Cancelled()
		c.End(cancelled)
	})
	r.Detach = true
	status, _ := r.run(t)
	require.Zero(t, status)
	assert.Equal(t, r.only(t).ID+"\n", r.stdout.String())
	assert.Equal(t, wire.SessionActive, r.only(t).State)
}

func TestDryRun(t *testing.T) {
	r := try(t, nil)
	r.DryRun, r.Command.Limits.Memory = true, 2<<30
	r.Command.Args = []string{"echo", "it's"}
	status, _ := r.run(t)
	require.Zero(t, status)
	assert.Equal(t, `workspace:    an empty directory
environment:  none
network:      none
path:         /opt/tools:/usr/bin:/usr/local/go/bin
toolchains:   not shown: /opt/codex-runner-test is not there: install the toolchain again, or take it out of toolchains of [sandbox] in runner.toml
variables:    HTTPS_PROXY
unit:         an instance of codex-session@.service
              MemoryMax=1024
command:      echo 'it'\''s'
limits:       --memory 2G
queue:        starts at once
`, r.stdout.String())
}

// first is a writer that calls a function at its first write.
type first struct {
	bytes.Buffer
	do func()
}

func (f *first) Write(p []byte) (int, error) {
	if f.do != nil {
		f.do()
		f.do = nil
	}
	return f.Buffer.Write(p)
}

// The first signal cancels the command, whose output still comes; also if the daemon starts again meanwhile.
func TestSignalCancels(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "first ")
		<-c.Cancelled()
		c.Write(logs.Stdout, "last words")
		c.End(cancelled)
	})
	out := &first{do: func() {
		r.daemon.Down()
		r.signals <- syscall.SIGINT
		r.daemon.Up()
	}}
	r.Stdout = out
	status, text := r.run(t)
	assert.Equal(t, 130, status)
	assert.Equal(t, "The command was cancelled by alice.", text)
	assert.Equal(t, "first last words", out.String())
	assert.Contains(t, r.stderr.String(), "cancelling the command; again to leave it alone\n")
}

// The second signal leaves the command alone, which does not end.
func TestSecondSignalLeaves(t *testing.T) {
	done := make(chan struct{})
	r := try(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "first")
		<-done
		c.End(cancelled)
	})
	defer close(done)
	r.Stdout = &first{do: func() {
		r.signals <- syscall.SIGTERM
		r.signals <- syscall.SIGTERM
	}}
	status, text := r.run(t)
	assert.Equal(t, 128+15, status)
	assert.Equal(t, "left the command before its end: codex-runner show aaaaaaaaaaaaaaaa has it", text)
}

// A signal before the command is queued ends the program, and the daemon never had it.
func TestSignalBeforeTheStart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket) // which never answers
	require.NoError(t, err)
	defer listener.Close()
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	r := Run{Client: client.New(socket), Signals: signals}
	status, text := exit(t, r.Run(t.Context()))
	assert.Equal(t, 130, status)
	assert.Equal(t, "stopped before the command was started", text)
}

// full is a stream without a reader.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestRunEndsWithItsReader(t *testing.T) {
	r := try(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "out")
		<-c.Cancelled()
		c.End(cancelled)
	})
	r.Stdout = full{}
	status, text := r.run(t)
	assert.Equal(t, RunnerFailed, status)
	assert.Equal(t, "cannot write the output of the command: broken pipe", text)
	assert.Equal(t, wire.SessionClosed, r.only(t).State)
}

func TestBadInput(t *testing.T) {
	for want, change := range map[string]func(*Run){
		"cannot read the standard input of the command: open /nowhere": func(r *Run) { r.StdinFile = "/nowhere" },
		"--repo /nowhere is neither a URL nor a directory":             func(r *Run) { r.Source = "/nowhere" },
		"--repo /dev/null is a file: name the top directory":           func(r *Run) { r.Source = "/dev/null" },
	} {
		r := try(t, nil)
		change(&r.Run)
		status, text := r.run(t)
		assert.Equal(t, RunnerFailed, status)
		assert.Contains(t, text, want)
	}
}

func TestReadPatch(t *testing.T) {
	_, err := ReadPatch("-", strings.NewReader("+\xff\n"))
	require.ErrorContains(t, err, "no UTF-8")
	text, err := ReadPatch("-", strings.NewReader("x"))
	require.NoError(t, err)
	assert.Equal(t, "x", text)
	for want, name := range map[string]string{
		"cannot read the patch: open /nowhere":                         "/nowhere",
		"cannot read the patch: it has more than 4194304 bytes: commi": "-",
	} {
		_, err := ReadPatch(name, zeros{})
		status, text := exit(t, err)
		assert.Equal(t, RunnerFailed, status)
		assert.Contains(t, text, want)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestStatus(t *testing.T) {
	for want, err := range map[int]error{
		cli.Usage:    &wire.Error{Code: wire.InvalidRequest},
		cli.TempFail: &wire.Error{Code: wire.QueueFull},
		7:            &wire.Error{Code: wire.NotFound},
		128 + 2:      &LeftError{Signal: syscall.SIGINT},
		9:            cli.Exit(9, errors.New("x")),
	} {
		got, _ := exit(t, Status(err, 7))
		assert.Equal(t, want, got)
	}
	assert.NoError(t, Status(nil, 7))
}
