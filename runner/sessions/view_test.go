package sessions

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

// viewed is a session that has ended, and a View of its daemon.
func viewed(t *testing.T) (View, *bytes.Buffer, *trial, string) {
	t.Helper()
	r := try(t, func(c *apitest.Command) {
		c.Keep(wire.Artifact{Path: "out/junit.xml", Kind: "junit", SHA256: strings.Repeat("0", 64)}, "<testsuite/>")
		c.Write(logs.Stdout, "out")
		c.Write(logs.Stderr, "err")
		c.End(outcome.Outcome{Word: outcome.Failed, Status: 2, ExitStatus: 2, Text: "The command failed with status 2."})
	})
	r.Command.Args = []string{"pytest", "-k", "a b\x1b[2J"}
	status, _ := r.run(t)
	require.Equal(t, 2, status)
	out := &bytes.Buffer{}
	return View{Client: r.Client, Stdout: out}, out, r, r.only(t).ID
}

func TestList(t *testing.T) {
	view, out, _, id := viewed(t)
	require.NoError(t, view.List(t.Context(), client.Filter{}))
	head, row, _ := strings.Cut(out.String(), "\n")
	assert.Equal(t, "ID                USER   STATE   COMMANDS  LAST        AGE       TIME  COMMAND", strings.TrimSpace(head))
	assert.Equal(t, id+" alice closed 1 failed (2)", strings.Join(strings.Fields(row)[:6], " "))
	assert.True(t, strings.HasSuffix(row, "1.5s  pytest -k 'a b[2J'\n"), "without what a terminal obeys: %q", row)
	out.Reset()
	view.JSON = true
	require.NoError(t, view.List(t.Context(), client.Filter{State: wire.SessionIdle}))
	assert.Equal(t, "{\"sessions\":[]}\n", out.String())
}

func TestTableIsAsWideAsItsPaper(t *testing.T) {
	var out bytes.Buffer
	table(&out, 8, "A\tB", []string{"123456", "1234567"}, func(s string) []string { return []string{s, "x"} })
	assert.Equal(t, "A      …\n123456 …\n1234567…\n", out.String())
}

func TestShow(t *testing.T) {
	at := apitest.Now
	s := wire.Session{
		ID: "aaaaaaaaaaaaaaaa", Owner: wire.Owner{UID: 1000}, State: wire.SessionActive, Created: at,
		Repository: "https://example.org/a.git\x1b", Ref: "main\r", Commit: "c0ffee", Environment: "venv", Network: true,
		Secrets: []string{"A", "B"},
		Commands: []wire.Command{
			{Number: 1, State: wire.CommandEnded, Args: []string{"make"}, Created: at, Started: at, Ended: at.Add(90 * time.Second),
				Limits:         wire.Limits{Timeout: wire.Duration(time.Minute), CPUs: 1.5, Memory: 2 << 30, Tasks: 9, Disk: 1000},
				Outcome:        &outcome.Outcome{Word: outcome.TimedOut, Text: "It ran\x1b longer."},
				ArtifactsFault: "too many",
				Usage:          &wire.Usage{Output: 1536, User: wire.Duration(time.Second), MemoryPeak: 3 << 20}, Invocation: "f00"},
			{Number: 2, State: wire.CommandQueued, Args: []string{""}, Position: 3, Directory: "a/b", Created: at},
		},
	}
	var out bytes.Buffer
	writeSession(&out, s, "", at.Add(2*time.Minute))
	assert.Equal(t, `session:      aaaaaaaaaaaaaaaa, active, of 1000
created:      12:00 (2m ago)
repository:   https://example.org/a.git
ref:          main
commit:       c0ffee
environment:  venv
network:      open
secrets:      A B

1. make
  state:      timed out
  end:        It ran longer.
  artifacts:  too many
  time:       1m30s, from 12:00
  used:       1.5 KiB of output, 1s of CPU, at most 3.0 MiB of memory
  limits:     --timeout 1m0s --cpus 1.5 --memory 2G --tasks 9 --disk 1000
  journal:    journalctl _SYSTEMD_INVOCATION_ID=f00

2. ''
  state:      queued
  queue:      place 3
  directory:  a/b
`, out.String())
}

// A commit of changes that are not committed is in no repository of the caller, and show says so.
func TestShowOfChanges(t *testing.T) {
	w := newWorker(t)
	commit := func(changes Changes) (shown string) {
		status, text := w.run(changes, "true")
		require.Zero(t, status, text)
		all, err := w.r.Client.Sessions(t.Context(), client.Filter{Limit: 1})
		require.NoError(t, err)
		s := all[0]
		s.Owner.UID = uint32(os.Getuid())
		var out bytes.Buffer
		writeSession(&out, s, lacking(t.Context(), s), apitest.Now)
		return out.String()
	}
	assert.NotContains(t, commit(ChangesClean), "lacks")
	require.NoError(t, os.WriteFile(filepath.Join(w.r.Source, "file"), []byte("new\n"), 0o644))
	assert.Regexp(t, `commit: +[0-9a-f]{40}\n +which `+w.r.Source+` lacks: the session has made it of changes that are not committed\n`,
		commit(ChangesTaken))
}

func TestOutput(t *testing.T) {
	_, _, r, id := viewed(t)
	for from, want := range map[int64][2]string{0: {"out", "err"}, 2: {"t", "err"}, 6: {"", ""}} {
		var stdout, stderr bytes.Buffer
		o := Output{Client: r.Client, Stdout: &stdout, Stderr: &stderr, From: from, Follow: true}
		require.NoError(t, o.Show(t.Context(), id))
		assert.Equal(t, want, [2]string{stdout.String(), stderr.String()})
	}
	err := Output{Client: r.Client, Command: 2}.Show(t.Context(), id)
	assert.ErrorContains(t, err, "the session has no such command")
	err = Output{Client: r.Client}.Show(t.Context(), "zzzzzzzzzzzzzzzz")
	assert.ErrorContains(t, err, "there is no session")
}

func TestArtifacts(t *testing.T) {
	view, out, _, id := viewed(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, view.Artifacts(t.Context(), id, dir))
	assert.Equal(t, "COMMAND  KIND   SIZE  PATH\n1        junit  12 B  out/junit.xml\n", out.String())
	text, err := os.ReadFile(filepath.Join(dir, "1", "out", "junit.xml"))
	require.NoError(t, err)
	assert.Equal(t, "<testsuite/>", string(text))
}

// The path of an artifact is what the session says.
func TestArtifactsStayBelow(t *testing.T) {
	for _, path := range []string{"../../x", "link/x"} {
		r := try(t, func(c *apitest.Command) {
			c.Keep(wire.Artifact{Path: path, Kind: "file"}, "x")
			c.End(succeeded)
		})
		status, _ := r.run(t)
		require.Zero(t, status)
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "1"), 0o755))
		require.NoError(t, os.Symlink("/", filepath.Join(dir, "1", "link")))
		err := View{Client: r.Client, Stdout: &bytes.Buffer{}}.Artifacts(t.Context(), r.only(t).ID, dir)
		assert.ErrorContains(t, err, "cannot save the artifact "+path)
		assert.ErrorContains(t, err, "escapes")
	}
}

func TestPrune(t *testing.T) {
	view, out, r, id := viewed(t)
	require.NoError(t, view.Prune(t.Context(), wire.Prune{DryRun: true, OlderThan: wire.Duration(time.Hour)}))
	assert.Equal(t, id+"\n1 session (1.0 KiB) would be removed\n", out.String())
	assert.Equal(t, []wire.Prune{{DryRun: true, OlderThan: wire.Duration(time.Hour)}}, r.daemon.Prunes())
}

func TestStatusOfTheDaemon(t *testing.T) {
	view, out, _, _ := viewed(t)
	require.NoError(t, view.Status(t.Context(), []string{"/opt/zig is not there: install it"}))
	assert.Regexp(t, `^ready, version 1.2.3, for .*\ncommands: 0 of 8 run, 0 of 100 wait\n1 session; workspaces: 0 of 0 in use\nenvironments: 2 with 3.0 MiB; repositories: 1 with 5.0 MiB\nsnapshots of set-ups: 1 with 7.0 MiB; since the start: 9 sessions began with one, 1 session waited for one, 0 removed\ndisk: 40.0 GiB of 100.0 GiB free\nnot shown to commands: /opt/zig is not there: install it\n$`,
		out.String())
}

func TestCancelAndRelease(t *testing.T) {
	r, id := held(t)
	view := View{Client: r.Client, Stdout: &bytes.Buffer{}}
	require.NoError(t, view.Release(t.Context(), id))
	r.daemon.Await(id, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandEnded })
	require.NoError(t, view.Cancel(t.Context(), id, 0))
	assert.Equal(t, wire.SessionClosed, r.only(t).State)
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 62: "4.0 EiB"} {
		assert.Equal(t, want, size(n))
	}
}
