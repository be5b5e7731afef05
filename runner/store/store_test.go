package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/workspace"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), FileName))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// id is a session's.
func id(n int) string { return fmt.Sprintf("%016d", n) }

func create(t testing.TB, s *Store, n int, owner uint32, commands ...wire.NewCommand) {
	t.Helper()
	require.NoError(t, s.Sessions.Create(t.Context(), New{Session: wire.Session{
		ID: id(n), Owner: wire.Owner{UID: owner, Name: "alice"}, Created: t0.Add(time.Duration(n)), Environment: "none",
		Secrets: []string{"TOKEN"},
	}, Commands: commands}))
}

func command(args ...string) wire.NewCommand {
	return wire.NewCommand{Args: args, Limits: wire.Limits{Timeout: wire.Duration(time.Minute), Memory: 1 << 30}}
}

var succeeded = Ending{
	Started: t0.Add(time.Second), Ended: t0.Add(time.Minute), Invocation: "abc",
	Outcome: outcome.Outcome{Word: outcome.Succeeded, Text: "ok"}, Usage: wire.Usage{Output: 3},
}

func TestSession(t *testing.T) {
	s, ctx := open(t), t.Context()
	create(t, s, 1, 1000, command("a", "b"), wire.NewCommand{Args: []string{"c"}, Stdin: true})
	got, err := s.Sessions.Find(ctx, Viewer{UID: 1000}, id(1))
	require.NoError(t, err)
	limits := command().Limits
	created := t0.Add(1)
	want := wire.Session{
		ID: id(1), Owner: wire.Owner{UID: 1000, Name: "alice"}, State: wire.SessionActive, Created: created,
		Environment: "none", Secrets: []string{"TOKEN"},
		Commands: []wire.Command{
			{Number: 1, State: wire.CommandQueued, Args: []string{"a", "b"}, Limits: limits, Created: created},
			{Number: 2, State: wire.CommandAwaitingStdin, Args: []string{"c"}, Created: created},
		},
	}
	assert.Equal(t, want, got)
	_, err = s.Sessions.Find(ctx, Viewer{UID: 1001}, id(1))
	assert.ErrorIs(t, err, ErrNotFound, "of another user")
	_, err = s.Sessions.Find(ctx, Viewer{All: true}, id(1))
	assert.NoError(t, err)
	live, err := s.Commands.Live(ctx)
	require.NoError(t, err)
	require.Len(t, live, 2)
	assert.Equal(t, Live{Session: id(1), Number: 1, Owner: 1000, State: wire.CommandQueued,
		Environment: "none", Secrets: []string{"TOKEN"}, Command: command("a", "b")}, live[0])
	one, err := s.Commands.Find(ctx, id(1), 1)
	require.NoError(t, err)
	assert.Equal(t, live[0], one)
	_, err = s.Commands.Find(ctx, id(1), 3)
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestLifeOfASession(t *testing.T) {
	s, ctx := open(t), t.Context()
	create(t, s, 1, 1000, command("a"))
	require.NoError(t, s.Commands.Move(ctx, id(1), 1, wire.CommandQueued, wire.CommandStarting))
	assert.ErrorIs(t, s.Commands.Move(ctx, id(1), 1, wire.CommandQueued, wire.CommandStarting), ErrState)
	require.NoError(t, s.Commands.Cancel(ctx, id(1), 1, "alice"))
	require.NoError(t, s.Commands.Cancel(ctx, id(1), 1, "bob"))
	one, err := s.Commands.Find(ctx, id(1), 1)
	require.NoError(t, err)
	assert.Equal(t, "alice", one.CancelledBy)
	assert.ErrorIs(t, s.Sessions.Close(ctx, id(1), 0, t0), ErrState, "a command runs")

	require.NoError(t, s.Commands.End(ctx, id(1), 1, succeeded, succeeded.Ended))
	assert.ErrorIs(t, s.Commands.End(ctx, id(1), 1, succeeded, succeeded.Ended), ErrState)
	assert.ErrorIs(t, s.Commands.Cancel(ctx, id(1), 1, "alice"), ErrState)
	got, err := s.Sessions.Find(ctx, Viewer{UID: 1000}, id(1))
	require.NoError(t, err)
	assert.Equal(t, wire.SessionIdle, got.State)
	c := got.Commands[0]
	assert.Equal(t, succeeded, Ending{
		Started: c.Started, Ended: c.Ended, Outcome: *c.Outcome, Usage: *c.Usage, Invocation: c.Invocation,
	})

	number, err := s.Commands.Add(ctx, id(1), command("b"), t0)
	require.NoError(t, err)
	assert.Equal(t, 2, number)
	require.NoError(t, s.Commands.End(ctx, id(1), 2, succeeded, succeeded.Ended))
	idle, err := s.Sessions.In(ctx, Viewer{UID: 1000}, wire.SessionIdle)
	require.NoError(t, err)
	assert.Equal(t, []Idle{{ID: id(1), Used: succeeded.Ended}}, idle)
	removed, err := s.Sessions.Delete(ctx, []string{id(1), id(2)})
	require.NoError(t, err)
	assert.Empty(t, removed, "not closed, not there")
	require.NoError(t, s.Sessions.Close(ctx, id(1), 0, t0))
	_, err = s.Commands.Add(ctx, id(1), command("c"), t0)
	assert.ErrorIs(t, err, ErrState)
	removed, err = s.Sessions.Delete(ctx, []string{id(1)})
	require.NoError(t, err)
	assert.Equal(t, []string{id(1)}, removed)
	_, err = s.Commands.Find(ctx, id(1), 1)
	assert.ErrorIs(t, err, ErrNotFound, "commands go with their session")
}

func TestPages(t *testing.T) {
	s, ctx := open(t), t.Context()
	for n := range 7 {
		create(t, s, n, uint32(n%2), command("first"), command("last", fmt.Sprint(n)))
	}
	var ids []string
	for page := (Page{Viewer: Viewer{UID: 0}, Limit: 3}); ; {
		got, err := s.Sessions.List(ctx, page)
		require.NoError(t, err)
		for _, v := range got.Sessions {
			ids = append(ids, v.ID)
			require.Len(t, v.Commands, 1)
			assert.Equal(t, "last", v.Commands[0].Args[0])
		}
		if page.Before = got.Next; page.Before == "" {
			break
		}
	}
	assert.Equal(t, []string{id(6), id(4), id(2), id(0)}, ids)
	got, err := s.Sessions.List(ctx, Page{Viewer: Viewer{All: true}, Limit: 10, State: wire.SessionActive})
	require.NoError(t, err)
	assert.Len(t, got.Sessions, 7)
	got, err = s.Sessions.List(ctx, Page{Viewer: Viewer{All: true}, Limit: 10, State: wire.SessionClosed})
	require.NoError(t, err)
	assert.Empty(t, got.Sessions)
	_, err = s.Sessions.List(ctx, Page{Before: "!", Limit: 1})
	assert.ErrorIs(t, err, ErrNotFound)
}

// A list has the beginning of long arguments, whatever users give to commands.
func TestLongArgumentsInAList(t *testing.T) {
	s := open(t)
	long := wire.NewCommand{Args: []string{"make", strings.Repeat("x", 8<<20), "y"}, Directory: strings.Repeat("d/", 1<<20)}
	create(t, s, 1, 1000, long)
	page, err := s.Sessions.List(t.Context(), Page{Viewer: Viewer{UID: 1000}, Limit: 10})
	require.NoError(t, err)
	got := page.Sessions[0].Commands[0]
	require.Len(t, got.Args, 2)
	assert.Equal(t, "make", got.Args[0])
	assert.Less(t, len(got.Args[1])+len(got.Directory), 9<<10)
	found, err := s.Sessions.Find(t.Context(), Viewer{UID: 1000}, id(1))
	require.NoError(t, err)
	assert.Equal(t, long.Args, found.Commands[0].Args)
}

func TestLeases(t *testing.T) {
	s, ctx := open(t), t.Context()
	for n := range 3 {
		create(t, s, n, 1000, command("a"))
	}
	var seen workspace.Pool
	choose := func(number int) func(workspace.Pool) (int, error) {
		return func(p workspace.Pool) (int, error) { seen = p; return number, nil }
	}
	full := func(workspace.Pool) (int, error) { return 0, workspace.ErrPoolFull }
	number, err := s.Workspaces.Lease(ctx, id(0), "repo", t0, choose(4))
	require.NoError(t, err)
	assert.Equal(t, 4, number)
	assert.Empty(t, seen)
	number, err = s.Workspaces.Lease(ctx, id(0), "repo", t0.Add(1), full)
	require.NoError(t, err, "it keeps its workspace")
	assert.Equal(t, 4, number)
	_, err = s.Workspaces.Lease(ctx, id(1), "", t0, full)
	assert.ErrorIs(t, err, workspace.ErrPoolFull)
	_, err = s.Workspaces.Lease(ctx, id(1), "", t0, choose(4))
	assert.Error(t, err, "it is leased")
	require.NoError(t, s.Commands.End(ctx, id(0), 1, succeeded, succeeded.Ended))
	require.NoError(t, s.Sessions.Close(ctx, id(0), 5, t0.Add(2)))
	_, err = s.Workspaces.Lease(ctx, id(1), "", t0, choose(1))
	require.NoError(t, err)
	_, err = s.Workspaces.Lease(ctx, id(2), "", t0.Add(3), choose(4))
	require.NoError(t, err)
	assert.Equal(t, workspace.Pool{
		{Number: 1, Session: id(1), Heartbeat: t0}, {Number: 4, Repository: "repo", Heartbeat: t0.Add(2), Bytes: 5},
	}, seen)
	tally, err := s.Tally(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int{3, 2, 2}, []int{tally.AllSessions(), tally.Workspaces, tally.Leased})
}

// Each version of the file becomes the newest one, with what it has.
func TestMigration(t *testing.T) {
	for version := 1; version <= len(steps); version++ {
		path := filepath.Join(t.TempDir(), FileName)
		old, err := sqlite.Open(t.Context(), path, steps[:version]...)
		require.NoError(t, err)
		_, err = old.Exec(`INSERT INTO sessions (seq, id, owner, owner_name, state, created, used, repository, ref,
			commit_id, patch, environment, network, secrets, hold) VALUES (1, ?, 1000, 'alice', 'closed', 1, 2, '', '', '', '', 'none', 0, '[]', 0)`, id(1))
		require.NoError(t, err)
		require.NoError(t, old.Close())
		s, err := Open(t.Context(), path)
		require.NoError(t, err)
		got, err := s.Sessions.Find(t.Context(), Viewer{UID: 1000}, id(1))
		require.NoError(t, err)
		assert.Equal(t, at(2), got.Closed)
		require.NoError(t, s.Close())
	}
}

// Reading uses an index, however many sessions there are.
func TestPlans(t *testing.T) {
	s := open(t)
	for query, want := range map[string]string{
		selectLive + `WHERE c.state <> 'ended'`:                              "commands_live",
		selectSessions + `WHERE s.seq < 9 AND s.owner = 1 ORDER BY s.seq`:    "sessions_of_owner",
		`SELECT id FROM sessions WHERE state = 'idle' ORDER BY used LIMIT 1`: "sessions_in_state",
	} {
		var plan string
		rows, err := s.reads.Query("EXPLAIN QUERY PLAN " + query)
		require.NoError(t, err)
		for rows.Next() {
			var step, parent, unused sql.NullInt64
			var text string
			require.NoError(t, rows.Scan(&step, &parent, &unused, &text))
			plan += text + "\n"
		}
		require.NoError(t, rows.Close())
		assert.Contains(t, plan, want)
	}
}

func TestArtifacts(t *testing.T) {
	s, ctx := open(t), t.Context()
	create(t, s, 1, 1000, command("a"))
	create(t, s, 2, 1000, command("a"))
	ending := succeeded
	ending.ArtifactsFault = "too many"
	ending.Artifacts = []artifact.File{{Path: "b", Kind: artifact.Plain, Offset: 7, Bytes: 3, SHA256: "x"}, {Path: "a", Kind: artifact.JUnit}}
	require.NoError(t, s.Commands.End(ctx, id(1), 1, ending, ending.Ended))
	assert.ErrorIs(t, s.Commands.End(ctx, id(1), 1, ending, ending.Ended), ErrState)
	all, err := s.Artifacts.List(ctx, id(1))
	require.NoError(t, err)
	require.Len(t, all, 2, "once")
	assert.Equal(t, []string{"a", "b"}, []string{all[0].Path, all[1].Path})
	b, offset, err := s.Artifacts.Find(ctx, id(1), all[1].ID)
	require.NoError(t, err)
	assert.Equal(t, wire.Artifact{ID: b.ID, Command: 1, Path: "b", Kind: "file", Bytes: 3, SHA256: "x", Created: ending.Ended}, b)
	assert.EqualValues(t, 7, offset)
	_, _, err = s.Artifacts.Find(ctx, id(2), b.ID)
	require.ErrorIs(t, err, ErrNotFound, "of another session")
	got, err := s.Sessions.Find(ctx, Viewer{All: true}, id(1))
	require.NoError(t, err)
	assert.Equal(t, "too many", got.Commands[0].ArtifactsFault)
	require.NoError(t, s.Sessions.Close(ctx, id(1), 0, t0))
	_, err = s.Sessions.Delete(ctx, []string{id(1)})
	require.NoError(t, err)
	all, err = s.Artifacts.List(ctx, id(1))
	require.NoError(t, err)
	assert.Empty(t, all)
}

// BenchmarkSessions lists the newest of 10 000 sessions: a page, and all of them.
func BenchmarkSessions(b *testing.B) {
	s := open(b)
	for n := range 10_000 {
		create(b, s, n, uint32(n%5), command("pytest", "-x"))
		require.NoError(b, s.Commands.End(b.Context(), id(n), 1, succeeded, succeeded.Ended))
	}
	for _, limit := range []int{100, 10_000} {
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			for b.Loop() {
				got, err := s.Sessions.List(b.Context(), Page{Viewer: Viewer{All: true}, Limit: limit})
				require.NoError(b, err)
				require.Len(b, got.Sessions, limit)
			}
		})
	}
}

// A command that runs has its start. It stays if the end has none, as the main process of the unit was killed.
func TestStart(t *testing.T) {
	s, ctx := open(t), t.Context()
	create(t, s, 1, 1000, command("a"))
	require.ErrorIs(t, s.Commands.Begin(ctx, id(1), 1, t0), ErrState, "it is queued")
	require.NoError(t, s.Commands.Move(ctx, id(1), 1, wire.CommandQueued, wire.CommandStarting))
	require.NoError(t, s.Commands.Begin(ctx, id(1), 1, t0))
	got, err := s.Sessions.Find(ctx, Viewer{All: true}, id(1))
	require.NoError(t, err)
	assert.Equal(t, wire.CommandRunning, got.Commands[0].State)
	assert.Equal(t, t0, got.Commands[0].Started)
	require.NoError(t, s.Commands.End(ctx, id(1), 1, Ending{Ended: t0.Add(time.Minute)}, t0))
	got, err = s.Sessions.Find(ctx, Viewer{All: true}, id(1))
	require.NoError(t, err)
	assert.Equal(t, t0, got.Commands[0].Started)
}
