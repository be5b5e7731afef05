package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
	"codex-proxy/proxy/usage"
	"codex-proxy/test/await"
	"codex-proxy/test/postgrestest"
)

// TestDatabase runs all tests with one server.
func TestDatabase(t *testing.T) {
	server := postgrestest.Start(t)
	for name, test := range map[string]func(*testing.T, *postgrestest.Server, *pgx.Conn){
		"Left": testLeft, "KeyAnew": testKeyAnew, "LockOrder": testLockOrder,
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, server)
			execute(t, conn, "DROP SCHEMA IF EXISTS codex CASCADE")
			_, err := Migrate(t.Context(), conn)
			require.NoError(t, err)
			test(t, server, conn)
		})
	}
}

func connect(t *testing.T, server *postgrestest.Server) (conn *pgx.Conn) {
	t.Helper()
	session := postgres.NewSession(server.Server, time.Minute)
	t.Cleanup(session.Close)
	require.NoError(t, session.Do(t.Context(), func(_ context.Context, c *pgx.Conn) error {
		conn = c
		return nil
	}))
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// number reads one number.
func number(t *testing.T, conn *pgx.Conn, query string) (n float64) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT coalesce(("+query+"), 0)::float8").Scan(&n))
	return n
}

// uses is a question of a host that has used so much of the key x.
func uses(h Host, used float64) Question {
	return Question{Host: h, Process: "p", Asks: []limits.Ask{{Key: "x", Kind: "requests-per-minute", Ask: share.Ask{
		Limit: share.Limit{Most: 1e6}, Used: used, Held: 3, Demand: 1,
	}}}}
}

// A host that has left, and one with the name of another, change nothing.
func testLeft(t *testing.T, _ *postgrestest.Server, conn *pgx.Conn) {
	ctx := t.Context()
	left, other := Host{Name: "left", Machine: "1"}, Host{Name: "other", Machine: "2"}
	for _, h := range []Host{left, other} {
		require.NoError(t, Join(ctx, conn, h))
		_, err := Ask(ctx, conn, uses(h, 1000))
		require.NoError(t, err)
	}
	require.NoError(t, Leave(ctx, conn, "left"))
	for _, h := range []Host{left, {Name: "other", Machine: "clone"}} {
		q := uses(h, 1500)
		q.Process = "another"
		q.Usage = []usage.Row{{Period: "2026-01-31", Counts: usage.Counts{Requests: 1}}}
		_, err := Ask(ctx, conn, q)
		assert.ErrorIs(t, err, notJoined(h.Name))
		_, err = Shares(ctx, conn, q)
		assert.ErrorIs(t, err, notJoined(h.Name))
		q.First = true
		_, err = Ask(ctx, conn, q)
		assert.ErrorIs(t, err, notJoined(h.Name))
	}
	assert.InDelta(t, 2000, number(t, conn, "SELECT used FROM codex.limits"), 1)
	assert.InDelta(t, 3, number(t, conn, "SELECT held FROM codex.limits"), 0, "of the other")
	assert.Zero(t, number(t, conn, "SELECT count(*) FROM codex.shares WHERE host = 'left'"))
	assert.Zero(t, number(t, conn, "SELECT count(*) FROM codex.usage"))
	_, err := Shares(ctx, conn, uses(other, 1001))
	require.NoError(t, err)
	assert.InDelta(t, 2001, number(t, conn, "SELECT used FROM codex.limits"), 1)

	execute(t, conn, "UPDATE codex.hosts SET until = now() - interval '1 hour'")
	require.NoError(t, sweep(ctx, conn))
	assert.Zero(t, number(t, conn, "SELECT held FROM codex.limits"), "it is lost")
}

// A key that is revoked and made anew begins with nothing used, also on a host that has counted all the time.
func testKeyAnew(t *testing.T, _ *postgrestest.Server, conn *pgx.Conn) {
	ctx := t.Context()
	h := Host{Name: "h", Machine: "1"}
	require.NoError(t, Join(ctx, conn, h))
	add := func(text string) (string, error) {
		_, line, err := auth.Generate("x")
		return text + line + "\n", err
	}
	require.NoError(t, EditKeys(ctx, conn, add))
	_, err := Ask(ctx, conn, uses(h, 1000))
	require.NoError(t, err)
	require.NoError(t, EditKeys(ctx, conn, func(string) (string, error) { return "", nil }))
	require.NoError(t, EditKeys(ctx, conn, add))
	_, err = Ask(ctx, conn, uses(h, 1001))
	require.NoError(t, err)
	assert.InDelta(t, 1, number(t, conn, "SELECT used FROM codex.limits"), 0.001)
	assert.InDelta(t, 3, number(t, conn, "SELECT held FROM codex.limits"), 0)
}

// Shares are taken back in the order of bytes, as they are taken, whatever the order of the database.
func testLockOrder(t *testing.T, server *postgrestest.Server, conn *pgx.Conn) {
	execute(t, conn, `ALTER TABLE codex.shares ALTER key TYPE text COLLATE "en-x-icu";
		INSERT INTO codex.limits (key, kind) VALUES ('aB', 'k'), ('a_b', 'k'), ('ab', 'k');
		INSERT INTO codex.shares (host, key, kind, process, used, held, demand)
			SELECT 'h', key, kind, 'p', 0, 1, 1 FROM codex.limits`)
	execute(t, conn, "BEGIN; SELECT FROM codex.limits WHERE key = 'aB' FOR UPDATE")
	other, watching := connect(t, server), connect(t, server)
	done := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.Background(), "SELECT codex.take_back('h', '')")
		done <- err
	}()
	await.True(t, func() bool {
		return number(t, watching, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") > 0
	}, time.Minute, "it waits for the first")
	assert.InDelta(t, 2, number(t, conn, "SELECT count(*) FROM (SELECT FROM codex.limits WHERE key <> 'aB' "+
		"FOR UPDATE SKIP LOCKED) AS free"), 0, "and has locked none")
	execute(t, conn, "ROLLBACK")
	require.NoError(t, <-done)
}
