package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/stored/storedtest"
	"codex-proxy/test/await"
	"codex-proxy/test/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var roomy = stored.Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 100}

// TestShared runs all tests with one server.
func TestShared(t *testing.T) {
	server := postgrestest.Start(t)
	for name, test := range map[string]func(*testing.T, *postgrestest.Server){
		"Contract":           testContract,
		"Away":               testAway,
		"Move":               testMove,
		"LostHost":           testLostHost,
		"NextProcess":        testNextProcess,
		"OrdersOfOtherHosts": testOrdersOfOtherHosts,
		"Sweep":              testSweep,
		"InTheWay":           testInTheWay,
		"ParallelDelete":     testParallelDelete,
		"LateClaim":          testLateClaim,
		"LostAnswer":         testLostAnswer,
		"SlowTree":           testSlowTree,
		"OrdersDuringSweep":  testOrdersDuringSweep,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// tables has the table of daemon/fleet that the statements read.
const tables = `DROP SCHEMA IF EXISTS codex CASCADE; CREATE SCHEMA codex;
CREATE TABLE codex.hosts (name text PRIMARY KEY, until timestamptz NOT NULL);` + Schema

// execute runs statements on the server.
func execute(t testing.TB, server *postgrestest.Server, statements string) {
	t.Helper()
	pool := postgres.NewPool(server.Server)
	defer pool.Close()
	require.NoError(t, pool.Do(t.Context(), 10*time.Second, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
		return err
	}))
}

// fleet makes hosts with one empty database.
type fleet struct {
	t      testing.TB
	server *postgrestest.Server
	limits stored.Limits
	hosts  int
	steady atomic.Bool
}

func newFleet(t testing.TB, server *postgrestest.Server, limits stored.Limits) *fleet {
	t.Helper()
	execute(t, server, tables)
	f := &fleet{t: t, server: server, limits: limits}
	f.steady.Store(true)
	return f
}

// host makes a host with a lease.
func (f *fleet) host() *Store {
	f.t.Helper()
	f.hosts++
	name := fmt.Sprintf("host%d", f.hosts)
	execute(f.t, f.server, fmt.Sprintf(`INSERT INTO codex.hosts VALUES ('%s', 'infinity')`, name))
	return f.store(name, f.t.TempDir())
}

// store is a process of a host.
func (f *fleet) store(name, dir string) *Store {
	f.t.Helper()
	s := f.dying(name, dir)
	f.t.Cleanup(func() { assert.NoError(f.t, s.Close()) })
	return s
}

// dying is a process that the test ends.
func (f *fleet) dying(name, dir string) *Store {
	f.t.Helper()
	file := stored.New(stored.Settings{
		Path: filepath.Join(dir, stored.FileName), Limits: f.limits, Registry: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(f.t, file.Open(f.t.Context()))
	return New(Settings{
		File: file, Server: f.server.Server, Host: name, Bound: time.Minute,
		Steady: f.steady.Load, Foreign: func() bool { return false },
		Spread:   func() time.Duration { return 0 },
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
}

// running runs a store until the end of the test.
func running(t *testing.T, s *Store) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
}

func response(id, previous string) stored.Response {
	return stored.Response{
		ID: id, Owner: "ann", Previous: previous, Worker: "w", Object: []byte(`{"id":"` + id + `"}`),
		Input:  []stored.Item{{ID: "in-" + id, JSON: json.RawMessage(`"in"`)}},
		Output: []stored.Item{{ID: "out-" + id, JSON: json.RawMessage(`"out"`)}},
	}
}

func second[T any](_ T, err error) error { return err }

// Hosts with a database are a Store, each of them.
func testContract(t *testing.T, server *postgrestest.Server) {
	storedtest.Contract(t, func(t *testing.T, limits stored.Limits) func() stored.Store {
		f := newFleet(t, server, limits)
		return func() stored.Store { return f.host() }
	})
}

// While the database does not answer, a host keeps responses in its file: with their history, so that it continues
// them. Later all hosts have them, and no client gets a 404 before.
func testAway(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	one, two := f.host(), f.host()
	running(t, one)
	require.NoError(t, one.Put(ctx, response("a", "")))
	for name, fault := range map[string]func(bool){
		"hangs": server.Hang, "refuses": server.Refuse,
	} {
		one.bound.Store(int64(time.Second))
		fault(true)
		began := time.Now()
		require.NoError(t, one.Put(ctx, response(name, "")))
		t.Logf("%s: stored after %v", name, time.Since(began))
		assert.ErrorIs(t, second(one.Object(ctx, "ann", "a")), stored.ErrUnavailable, "it is not known to be missing")
		assert.ErrorIs(t, one.Put(ctx, response(name+"2", "a")), stored.ErrApart)
		whole := response(name+"2", "")
		whole.Input = append([]stored.Item{{ID: "in-a", JSON: json.RawMessage(`"in"`)}}, whole.Input...)
		require.NoError(t, one.Put(ctx, whole))
		require.NoError(t, one.Put(ctx, response(name+"3", name+"2")))
		assert.NoError(t, second(one.History(ctx, "ann", name+"3")))
		assert.ErrorIs(t, second(one.InFlight(ctx, "ann", name)), stored.ErrNotFound, "it has ended")
		assert.ErrorIs(t, second(one.Log(ctx, "ann", name)), stored.ErrNotFound)
		assert.ErrorIs(t, second(one.InFlight(ctx, "ann", "none")), stored.ErrUnavailable)
		began = time.Now()
		for range 20 {
			require.ErrorIs(t, second(one.Object(ctx, "ann", "none")), stored.ErrUnavailable)
		}
		t.Logf("%s: 20 calls fail within %v", name, time.Since(began))
		assert.ErrorIs(t, one.CreateConversation(ctx, stored.Conversation{ID: "c", Owner: "ann"}, nil), stored.ErrUnavailable)
		assert.ErrorIs(t, one.Begin(ctx, stored.InFlight{ID: "bg", Owner: "ann"}, nil, nil, false), stored.ErrUnavailable)
		fault(false)
		one.bound.Store(int64(time.Minute))
		began = time.Now()
		for _, id := range []string{name, name + "2", name + "3"} {
			await.True(t, func() bool { return second(two.Object(ctx, "ann", id)) == nil }, time.Minute, "%s", id)
			assert.ErrorIs(t, second(two.Object(ctx, "bob", id)), stored.ErrNotFound)
		}
		t.Logf("%s: on the other host after %v", name, time.Since(began))
		history, err := two.History(ctx, "ann", name+"3")
		require.NoError(t, err)
		assert.Len(t, history, 5)
		await.True(t, func() bool { return one.waiting.Load() == 0 }, time.Minute, "the file is empty")
	}
}

// A host has old responses and conversations in its file when it joins: all are moved, and none is lost for a moment.
func testMove(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	one, two := f.host(), f.host()
	file := one.file
	require.NoError(t, file.CreateConversation(ctx, stored.Conversation{
		ID: "c", Owner: "ann", Created: 3, Metadata: json.RawMessage(`{"a":"b"}`),
	}, []stored.Item{{ID: "i1", JSON: json.RawMessage(`1`)}, {ID: "i2", JSON: json.RawMessage(`2`)}}))
	said := response("said", "")
	said.Conversation, said.Extends = "c", true
	require.NoError(t, file.Put(ctx, said))
	require.NoError(t, file.DeleteConversationItem(ctx, "ann", "c", "i1"))
	for _, r := range [][2]string{
		{"after", "said"}, {"a", ""}, {"b", "a"}, {"c1", "b"}, {"fork", "a"}, {"x", ""}, {"y", "x"},
	} {
		require.NoError(t, file.Put(ctx, response(r[0], r[1])))
	}
	require.NoError(t, file.Delete(ctx, "ann", "x"))
	require.NoError(t, file.Begin(ctx, stored.InFlight{ID: "bg", Owner: "ann"}, []byte(`{}`), nil, true))
	log, err := file.Events.Create("bg")
	require.NoError(t, err)
	_, err = log.Write([]byte("event: response.completed\ndata: {}\n\n"))
	require.NoError(t, errors.Join(err, log.Flush()))
	ended := response("bg", "")
	ended.Log = log.Size()
	require.NoError(t, file.Finish(ctx, ended))
	log.Close()
	counts := map[string]int{"said": 3, "after": 5, "a": 2, "b": 4, "c1": 6, "fork": 4, "bg": 2}
	check := func(s *Store) {
		for id, want := range counts {
			history, err := s.History(ctx, "ann", id)
			if assert.NoError(t, err, id) {
				assert.Len(t, history, want, id)
			}
			assert.ErrorIs(t, second(s.History(ctx, "bob", id)), stored.ErrNotFound)
		}
		assert.ErrorIs(t, second(s.History(ctx, "ann", "y")), stored.ErrBroken)
	}
	check(one)
	running(t, one)
	for one.waiting.Load() > 0 {
		check(one)
	}
	check(one)
	check(two)
	items, err := two.ConversationItems(ctx, "ann", "c")
	require.NoError(t, err)
	assert.Len(t, items, 3)
	c, err := two.Conversation(ctx, "ann", "c")
	require.NoError(t, err)
	assert.Equal(t, stored.Conversation{ID: "c", Owner: "ann", Created: 3, Metadata: json.RawMessage(`{"a":"b"}`)}, c)
	require.NoError(t, two.Extend(ctx, "ann", "c", "", []stored.Item{{ID: "i3", JSON: json.RawMessage(`3`)}}))
	l, err := two.Log(ctx, "ann", "bg")
	require.NoError(t, err)
	assert.Equal(t, stored.Log{Size: ended.Log}, l)
	_, err = file.Waiting(ctx)
	require.NoError(t, err)
}

// A host without a lease is lost to a host that has asked long enough, and to no other. Its responses fail once, with
// an event that is behind all others; and its conversations are free.
func testLostHost(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	lost, one, two := f.host(), f.host(), f.host()
	for _, id := range []string{"runs", "cancelled", "deleted"} {
		require.NoError(t, lost.Begin(ctx, stored.InFlight{ID: id, Owner: "ann"}, []byte(id), nil, id == "runs"))
	}
	require.NoError(t, one.Cancel(ctx, "ann", "cancelled"))
	require.NoError(t, one.Delete(ctx, "ann", "deleted"))
	require.NoError(t, one.CreateConversation(ctx, stored.Conversation{ID: "c", Owner: "ann"}, nil))
	require.NoError(t, lost.Claim("c", "r"))
	end := func(object []byte, sequence int, cancelled bool) (ended, events []byte, err error) {
		return append([]byte("ended "), object...), fmt.Appendf(nil, "event: response.failed\ndata: %d\n\n", sequence), nil
	}
	both := func(want stored.Abandoned) {
		t.Helper()
		var sum stored.Abandoned
		for _, s := range []*Store{one, two} {
			ended, err := s.EndAbandoned(ctx, end)
			require.NoError(t, err)
			sum = stored.Abandoned{
				Failed: sum.Failed + ended.Failed, Cancelled: sum.Cancelled + ended.Cancelled, Deleted: sum.Deleted + ended.Deleted,
			}
		}
		assert.Equal(t, want, sum)
	}
	both(stored.Abandoned{})
	execute(t, server, `UPDATE codex.hosts SET until = now() - interval '1 hour' WHERE name = 'host1'`)
	f.steady.Store(false) // as after a hang of the database
	both(stored.Abandoned{})
	found, err := one.InFlight(ctx, "ann", "runs")
	require.NoError(t, err)
	assert.False(t, found.Dead)
	assert.ErrorIs(t, one.Claim("c", "other"), stored.ErrLocked)
	assert.ErrorIs(t, second(one.ReadLog(ctx, "ann", "runs", -1)), stored.ErrElsewhere)

	f.steady.Store(true)
	found, err = one.InFlight(ctx, "ann", "runs")
	require.NoError(t, err)
	assert.True(t, found.Dead)
	both(stored.Abandoned{Failed: 1, Cancelled: 1, Deleted: 1})
	object, err := two.Object(ctx, "ann", "runs")
	require.NoError(t, err)
	assert.Equal(t, "ended runs", string(object))
	assert.ErrorIs(t, second(two.Object(ctx, "ann", "deleted")), stored.ErrNotFound)
	l, err := two.Log(ctx, "ann", "runs")
	require.NoError(t, err)
	reader, err := two.ReadLog(ctx, "ann", "runs", 17)
	require.NoError(t, err)
	reader.Ended(l.Size)
	more, err := reader.Next()
	require.NoError(t, err)
	assert.True(t, more)
	reader.Close()
	require.NoError(t, one.Claim("c", "other"))

	// It was not lost: its end finds nothing to end.
	assert.ErrorIs(t, lost.Finish(ctx, response("runs", "")), stored.ErrNotFound)
	_, err = lost.InFlight(ctx, "ann", "runs")
	assert.ErrorIs(t, err, stored.ErrNotFound)
	object, err = lost.Object(ctx, "ann", "runs")
	require.NoError(t, err)
	assert.Equal(t, "ended runs", string(object))
}

// The next process of a host ends what the one before has left, for all hosts.
func testNextProcess(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	other, dir := f.host(), t.TempDir()
	execute(t, server, `INSERT INTO codex.hosts VALUES ('dies', 'infinity')`)
	dead := f.dying("dies", dir)
	require.NoError(t, dead.Begin(ctx, stored.InFlight{ID: "a", Owner: "ann"}, []byte(`a`), nil, false))
	require.NoError(t, other.CreateConversation(ctx, stored.Conversation{ID: "c", Owner: "ann"}, nil))
	require.NoError(t, dead.Claim("c", "r"))
	require.NoError(t, dead.Close())
	next := f.store("dies", dir)
	running(t, next)
	found, err := other.InFlight(ctx, "ann", "a")
	require.NoError(t, err)
	assert.False(t, found.Dead, "its host lives")
	ended, err := next.EndAbandoned(ctx, func(object []byte, _ int, _ bool) (ended, events []byte, err error) {
		return []byte("ended"), nil, nil
	})
	require.NoError(t, err)
	assert.Equal(t, stored.Abandoned{Failed: 1}, ended)
	require.NoError(t, other.Claim("c", "other"))
	await.True(t, func() bool {
		object, err := other.Object(ctx, "ann", "a")
		return err == nil && string(object) == "ended"
	}, time.Minute, "the other host has it")
	assert.ErrorIs(t, second(other.InFlight(ctx, "ann", "a")), stored.ErrNotFound)
	assert.ErrorIs(t, second(other.ReadLog(ctx, "ann", "a", -1)), eventlog.ErrNone)
}

// Clients of other hosts cancel a response, and delete one.
func testOrdersOfOtherHosts(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, roomy)
	one, two := f.host(), f.host()
	running(t, one)
	for _, id := range []string{"cancelled", "deleted", "neither"} {
		require.NoError(t, one.Begin(ctx, stored.InFlight{ID: id, Owner: "ann"}, []byte(`{}`), nil, false))
	}
	require.NoError(t, two.Cancel(ctx, "ann", "cancelled"))
	require.NoError(t, two.Delete(ctx, "ann", "deleted"))
	await.True(t, func() bool {
		ids, err := one.Ordered(ctx)
		return err == nil && len(ids) == 2
	}, time.Minute, "the orders")
}

// The sweep of one host keeps all within the limits: the owner with the most loses what was used longest ago.
func testSweep(t *testing.T, server *postgrestest.Server) {
	ctx := t.Context()
	f := newFleet(t, server, stored.Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 4})
	s := f.host()
	due := func() {
		t.Helper()
		execute(t, server, `UPDATE codex.sweep SET at = now() - interval '1 hour'`)
		require.NoError(t, s.sweep(ctx))
	}
	theirs := response("bob", "")
	theirs.Owner = "bob"
	require.NoError(t, s.Put(ctx, theirs))
	for i, r := range [][2]string{{"a", ""}, {"b", "a"}, {"c", ""}, {"d", "b"}, {"e", ""}} {
		require.NoError(t, s.Put(ctx, response(r[0], r[1])))
		execute(t, server, fmt.Sprintf(
			`UPDATE codex.responses SET used = now() - interval '%d minutes' WHERE id = '%s'`, 50-i, r[0]))
	}
	due()
	there := func(owner string, ids ...string) {
		t.Helper()
		var found []string
		for _, id := range []string{"a", "b", "bob", "c", "d", "e"} {
			if second(s.Object(ctx, owner, id)) == nil {
				found = append(found, id)
			}
		}
		assert.Equal(t, ids, found)
	}
	there("bob", "bob")
	there("ann", "a", "b", "e")
	execute(t, server, `UPDATE codex.responses SET used = now() - interval '2 hours' WHERE id IN ('a', 'b')`)
	due()
	there("ann", "e")
	require.NoError(t, s.sweep(ctx), "another host has swept")

	// In bytes, and with conversations.
	require.NoError(t, s.CreateConversation(ctx, stored.Conversation{ID: "c", Owner: "ann", Metadata: json.RawMessage(`{}`)},
		[]stored.Item{{ID: "i", JSON: make([]byte, 1<<20-4)}}))
	due()
	assert.ErrorIs(t, second(s.Conversation(ctx, "ann", "c")), stored.ErrNotFound)
	there("bob", "bob")
}
