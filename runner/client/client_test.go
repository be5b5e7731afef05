package client_test

import (
	"bytes"
	"context"
	"errors"
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

var succeeded = outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."}

func succeed(c *apitest.Command) { c.End(succeeded) }

func start(t *testing.T, run func(*apitest.Command)) (*apitest.Daemon, *client.Client) {
	t.Helper()
	daemon := apitest.Start(t, run)
	c := client.New(daemon.Socket)
	t.Cleanup(c.Close)
	return daemon, c
}

func create(t *testing.T, c *client.Client, args ...string) wire.Session {
	t.Helper()
	s, err := c.CreateSession(t.Context(), wire.NewSession{Commands: []wire.NewCommand{{Args: args}}})
	require.NoError(t, err)
	return s
}

func TestSessions(t *testing.T) {
	daemon, c := start(t, succeed)
	ctx := t.Context()
	s := create(t, c, "true")
	end, err := c.Wait(ctx, s.ID, 1)
	require.NoError(t, err)
	assert.Equal(t, &succeeded, end.Command.Outcome)

	next, err := c.AddCommand(ctx, s.ID, wire.NewCommand{Args: []string{"cat"}, Stdin: true})
	require.NoError(t, err)
	assert.Equal(t, wire.CommandAwaitingStdin, next.State)
	_, err = c.PutStdin(ctx, s.ID, next.Number, strings.NewReader("x"))
	require.NoError(t, err)
	_, err = c.Wait(ctx, s.ID, next.Number)
	require.NoError(t, err)

	whole, err := c.Session(ctx, s.ID)
	require.NoError(t, err)
	assert.Len(t, whole.Commands, 2)
	assert.Equal(t, wire.SessionIdle, whole.State)
	closed, err := c.Cancel(ctx, s.ID, 0)
	require.NoError(t, err)
	assert.Equal(t, wire.SessionClosed, closed.State)
	_ = daemon
}

// A list that is longer than a page comes in several.
func TestListInPages(t *testing.T) {
	_, c := start(t, succeed)
	var want []string
	for range 5 {
		want = append([]string{create(t, c, "true").ID}, want...)
	}
	for limit, n := range map[int]int{0: 5, 2: 2, 5: 5, 7: 5} {
		var got []string
		all, err := c.Sessions(t.Context(), client.Filter{Limit: limit, All: true})
		require.NoError(t, err)
		for _, s := range all {
			got = append(got, s.ID)
		}
		assert.Equal(t, want[:n], got)
	}
	none, err := c.Sessions(t.Context(), client.Filter{State: wire.SessionClosed})
	require.NoError(t, err)
	assert.NotNil(t, none)
	assert.Empty(t, none)
}

func TestPlanStartsNothing(t *testing.T) {
	_, c := start(t, succeed)
	plan, err := c.Plan(t.Context(), wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"true"}}}})
	require.NoError(t, err)
	assert.Equal(t, "codex-session@.service", plan.Unit)
	all, err := c.Sessions(t.Context(), client.Filter{})
	require.NoError(t, err)
	assert.Empty(t, all)
}

func TestDaemon(t *testing.T) {
	daemon, c := start(t, succeed)
	status, err := c.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "1.2.3", status.Version)
	_, err = c.Prune(t.Context(), wire.Prune{OlderThan: wire.Duration(time.Hour), DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, []wire.Prune{{OlderThan: wire.Duration(time.Hour), DryRun: true}}, daemon.Prunes())
}

func TestArtifacts(t *testing.T) {
	_, c := start(t, func(r *apitest.Command) {
		r.Keep(wire.Artifact{Path: "out/a.xml", Kind: "junit", SHA256: strings.Repeat("0", 64)}, "<testsuite/>")
		succeed(r)
	})
	s := create(t, c, "true")
	_, err := c.Wait(t.Context(), s.ID, 1)
	require.NoError(t, err)
	list, err := c.Artifacts(t.Context(), s.ID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	var content bytes.Buffer
	require.NoError(t, c.Artifact(t.Context(), s.ID, list[0], &content))
	assert.Equal(t, "<testsuite/>", content.String())
	list[0].Bytes++
	assert.ErrorContains(t, c.Artifact(t.Context(), s.ID, list[0], &content), "out/a.xml: it has 13 bytes, and 12 came")
}

func TestRefusals(t *testing.T) {
	_, c := start(t, succeed)
	_, err := c.Session(t.Context(), "aaaaaaaaaaaaaaaz")
	var refused *wire.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, wire.NotFound, refused.Code)
	assert.EqualError(t, err, "there is no session aaaaaaaaaaaaaaaz: list yours with codex-runner sessions")
	_, err = c.Wait(t.Context(), "aaaaaaaaaaaaaaaz", 1)
	require.ErrorAs(t, err, &refused)
	_, err = c.Shell(t.Context(), "aaaaaaaaaaaaaaaz", "", client.Size{})
	require.ErrorAs(t, err, &refused)
}

func TestNotRunning(t *testing.T) {
	_, err := client.New(filepath.Join(t.TempDir(), "api.sock")).Status(t.Context())
	assert.ErrorIs(t, err, client.ErrNotRunning)
	assert.ErrorContains(t, err, "nothing listens on")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stop"))
	_, err = client.New("/nowhere").Status(ctx)
	assert.EqualError(t, err, "stop")
}

// collect is a sink that keeps what it gets.
type collect struct {
	all    strings.Builder
	chunks int
}

func (c *collect) take(chunk logs.Chunk) error {
	c.chunks++
	c.all.WriteString(chunk.Stream.String()[3:] + ":" + string(chunk.Data) + " ")
	return nil
}

func TestShell(t *testing.T) {
	daemon, c := start(t, func(r *apitest.Command) { r.Hold(outcome.Outcome{Word: outcome.Failed, Status: 1}) })
	s := create(t, c, "false")
	daemon.Await(s.ID, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandHeld })
	shell, err := c.Shell(t.Context(), s.ID, "vt100", client.Size{Rows: 50, Columns: 132})
	require.NoError(t, err)
	defer shell.Close()
	require.NoError(t, shell.Resize(client.Size{Rows: 25, Columns: 80}))
	_, err = shell.Write([]byte(strings.Repeat("x", 100_000) + "\r"))
	require.NoError(t, err)
	shell.Close()
	_, err = shell.Run(t.Context(), &bytes.Buffer{})
	assert.ErrorContains(t, err, "the connection to the shell was lost")

	shell, err = c.Shell(t.Context(), s.ID, "vt100", client.Size{Rows: 50, Columns: 132})
	require.NoError(t, err)
	defer shell.Close()
	require.NoError(t, shell.Resize(client.Size{Rows: 25, Columns: 80}))
	_, err = shell.Write([]byte("exit 300\r"))
	require.NoError(t, err)
	var out bytes.Buffer
	status, err := shell.Run(t.Context(), &out)
	require.NoError(t, err)
	assert.Equal(t, 300, status)
	assert.Equal(t, "vt100 50x132\r\n25x80\r\nexit 300\r", out.String())

	_, err = c.Release(t.Context(), s.ID)
	require.NoError(t, err)
	end, err := c.Wait(t.Context(), s.ID, 1)
	require.NoError(t, err)
	assert.Equal(t, outcome.Failed, end.Command.Outcome.Word)
	_, err = c.Shell(t.Context(), s.ID, "", client.Size{})
	assert.ErrorContains(t, err, "no command of the session runs: run it with --hold-on-failure")
}
