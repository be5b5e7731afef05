package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/stored"
	"codex-proxy/test/await"
	"codex-proxy/test/postgrestest"
)

// lock holds what a statement locks, until release or the end of the test.
func lock(t *testing.T, server *postgrestest.Server, statement string) (release func()) {
	t.Helper()
	session := postgres.NewSession(server.Server, time.Minute)
	t.Cleanup(session.Close)
	var conn *pgx.Conn
	require.NoError(t, session.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
		conn = c
		_, err := c.Exec(ctx, "BEGIN;"+statement, pgx.QueryExecModeSimpleProtocol)
		return err
	}))
	return func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "ROLLBACK")
		require.NoError(t, err)
	}
}

// A lock that another transaction has fails one call, and the database is not away for the others.
func testInTheWay(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	execute(t, server, `ALTER ROLE codex SET lock_timeout = '100ms'`)
	t.Cleanup(func() { execute(t, server, `ALTER ROLE codex RESET lock_timeout`) })
	s := f.host()
	theirs := response("theirs", "")
	theirs.Owner = "bob"
	require.NoError(t, s.Put(ctx, response("a", "")))
	require.NoError(t, s.Put(ctx, theirs))
	release := lock(t, server, `SELECT FROM codex.responses WHERE id = 'a' FOR UPDATE`)
	assert.ErrorIs(t, s.Delete(ctx, "ann", "a"), stored.ErrUnavailable)
	require.NoError(t, s.pool.Away())
	require.NoError(t, second(s.Object(ctx, "bob", "theirs")))
	release()
	assert.NoError(t, s.Delete(ctx, "ann", "a"))
}

// A client deletes all responses of a chain at the same time.
func testParallelDelete(t *testing.T, server *postgrestest.Server) {
	s := newFleet(t, server, roomy).host()
	const n = 20
	for i := range n {
		previous := ""
		if i > 0 {
			previous = fmt.Sprint("r", i-1)
		}
		require.NoError(t, s.Put(t.Context(), response(fmt.Sprint("r", i), previous)))
	}
	var deletions sync.WaitGroup
	for i := range n {
		deletions.Go(func() { assert.NoError(t, s.Delete(t.Context(), "ann", fmt.Sprint("r", i))) })
	}
	deletions.Wait()
}

// A claim that the database does after its call has ended is undone.
func testLateClaim(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	one, two := f.host(), f.host()
	require.NoError(t, one.CreateConversation(ctx, stored.Conversation{ID: "c", Owner: "ann"}, nil))
	execute(t, server, `CREATE FUNCTION codex.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			BEGIN
				PERFORM pg_sleep(5);
			EXCEPTION WHEN query_canceled THEN -- too late
			END;
			RETURN NEW;
		END $$;
		CREATE TRIGGER late BEFORE UPDATE ON codex.conversations FOR EACH ROW WHEN (NEW.holder = 'late')
			EXECUTE FUNCTION codex.late()`)
	one.bound.Store(int64(time.Second))
	assert.ErrorIs(t, one.Claim("c", "late"), stored.ErrUnavailable)
	one.bound.Store(int64(time.Minute))
	await.True(t, func() bool { return errors.Is(two.free(ctx, "c"), stored.ErrLocked) }, time.Minute, "the claim comes late")
	running(t, one)
	await.True(t, func() bool { return two.Claim("c", "other") == nil }, time.Minute, "it is undone")
}

// A response is stored, the answer is lost, and the file keeps it with all before it: it has its items once.
func testLostAnswer(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	s := newFleet(t, server, roomy).host()
	require.NoError(t, s.Put(ctx, response("a", "")))
	require.NoError(t, s.put(ctx, response("b", "a"), false))
	whole := response("b", "")
	whole.Input = append([]stored.Item{
		{ID: "in-a", JSON: json.RawMessage(`"in"`)}, {ID: "out-a", JSON: json.RawMessage(`"out"`)},
	}, whole.Input...)
	require.NoError(t, s.file.Put(ctx, whole))
	moved, err := (&mover{both: s.both}).once(ctx)
	require.NoError(t, err)
	require.True(t, moved)
	history, err := s.History(ctx, "ann", "b")
	require.NoError(t, err)
	var ids []string
	for _, item := range history {
		ids = append(ids, item.ID)
	}
	assert.Equal(t, []string{"in-a", "out-a", "in-b", "out-b"}, ids)
}

// A tree that takes too long lets the others pass.
func testSlowTree(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	s := newFleet(t, server, roomy).host()
	execute(t, server, `CREATE FUNCTION codex.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';
		END $$;
		CREATE TRIGGER slow BEFORE INSERT ON codex.responses FOR EACH ROW WHEN (NEW.id = 'slow') EXECUTE FUNCTION codex.slow()`)
	require.NoError(t, s.file.Put(ctx, response("slow", "")))
	<-time.After(10 * time.Millisecond) // the other is younger
	require.NoError(t, s.file.Put(ctx, response("fine", "")))
	m := &mover{both: s.both}
	_, err := m.once(ctx)
	require.ErrorIs(t, err, stored.ErrUnavailable)
	moved, err := m.once(ctx)
	require.NoError(t, err)
	assert.True(t, moved)
	assert.NoError(t, second(s.Object(ctx, "ann", "slow")), "the file has it")
}

// Orders of other hosts do not wait for a sweep.
func testOrdersDuringSweep(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	one, two := f.host(), f.host()
	release := lock(t, server, `SELECT FROM codex.sweep FOR UPDATE`)
	running(t, one)
	t.Cleanup(release) // before the end of the run
	require.NoError(t, one.Begin(ctx, stored.InFlight{ID: "bg", Owner: "ann"}, []byte(`{}`), nil, false))
	await.True(t, func() bool { return waiters(t, server) > 0 }, time.Minute, "the sweep waits")
	require.NoError(t, two.Cancel(ctx, "ann", "bg"))
	await.True(t, func() bool {
		ids, err := one.Ordered(ctx)
		return err == nil && len(ids) == 1
	}, 30*time.Second, "the order")
}

// waiters counts the statements that wait for a lock.
func waiters(t *testing.T, server *postgrestest.Server) (n int) {
	t.Helper()
	pool := postgres.NewPool(server.Server)
	defer pool.Close()
	require.NoError(t, pool.Do(t.Context(), time.Minute, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&n)
	}))
	return n
}
