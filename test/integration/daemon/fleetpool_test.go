package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/fleet"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
	"codex-proxy/test/machine"
)

// connectPostgres connects to the server of a machine from there, with the password of the service.
func connectPostgres(t *testing.T, m *machine.Machine, password string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig("postgres://codex@127.0.0.1/codex?sslmode=disable")
	require.NoError(t, err)
	config.Password, config.DefaultQueryExecMode = password, pgx.QueryExecModeExec
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return m.DialContext(ctx, network, address)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	return conn
}

// sharesLikeThePool compares codex.share of a real server with share.Pool, which the simulations have: hundreds of asks
// of three hosts, with restarts and lost ones.
func sharesLikeThePool(t *testing.T, m *machine.Machine, password string) {
	conn := connectPostgres(t, m, password)
	defer conn.Close(context.WithoutCancel(t.Context()))
	random := rand.New(rand.NewPCG(1, 1))
	pool, entries, processes := &share.Pool{}, map[string]share.Entry{}, map[string]int{}
	limit := share.Limit{Most: 100}
	_, err := conn.Exec(t.Context(), "BEGIN; INSERT INTO codex.hosts (name, machine, version) "+ // which no other host sees
		"SELECT name, 'm', '1' FROM unnest(ARRAY['pool', 'pool0', 'pool1', 'pool2']) AS name", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	for range 300 {
		host := fmt.Sprintf("pool%d", random.IntN(3))
		if random.IntN(20) == 0 {
			processes[host]++
		}
		process := fmt.Sprint(processes[host])
		if random.IntN(20) == 0 {
			_, err := conn.Exec(t.Context(), "SELECT codex.take_back($1, $2)", host, process)
			require.NoError(t, err)
			if entries[host].Process != process {
				entries[host] = pool.TakeBack(entries[host])
			}
		}
		ask := share.Ask{Limit: limit, Held: float64(random.IntN(5)), Used: entries[host].Used, Need: float64(random.IntN(3)),
			Demand: float64(random.IntN(4))}
		if random.IntN(5) == 0 {
			ask.Used += float64(random.IntN(4))
		}
		ask.Want = ask.Need + float64(random.IntN(20))
		if pool.Used > 80 { // a day later
			_, err := conn.Exec(t.Context(), "UPDATE codex.limits SET used = 0 WHERE key = 'pool'")
			require.NoError(t, err)
			pool.Used = 0
		}
		got, err := fleet.Shares(t.Context(), conn, fleet.Question{Host: fleet.Host{Name: host, Machine: "m"},
			Process: process,
			Asks:    []limits.Ask{{Key: "pool", Kind: "concurrent", Ask: ask}}})
		require.NoError(t, err)
		is, want := pool.Exchange(process, entries[host], ask, time.Now())
		entries[host] = is
		require.Len(t, got.Shares, 1)
		require.InDelta(t, want.Granted, got.Shares[0].Granted, 0.001, "%+v", ask)
		require.InDelta(t, want.Free, got.Shares[0].Free, 0.001, "%+v", ask)
		require.InDelta(t, want.Demand, got.Shares[0].Demand, 0.001, "%+v", ask)
	}

	// By time: a refill, and midnight.
	flows := func(limit share.Limit) float64 {
		got, err := fleet.Shares(t.Context(), conn, fleet.Question{Host: fleet.Host{Name: "pool", Machine: "m"},
			Process: "p",
			Asks:    []limits.Ask{{Key: "pool", Kind: "flow", Ask: share.Ask{Limit: limit, Used: 50}}}})
		require.NoError(t, err)
		return limit.Most - got.Shares[0].Free
	}
	minute, day := share.Limit{Most: 60, Refill: 1}, share.Limit{Most: 60, Daily: true}
	assert.InDelta(t, 50, flows(minute), 0.01)
	back := func(seconds int) {
		_, err := conn.Exec(t.Context(), "UPDATE codex.limits SET at = at - $1 * interval '1 s' WHERE kind = 'flow'", seconds)
		require.NoError(t, err)
	}
	back(20)
	assert.InDelta(t, 30, flows(minute), 1)
	assert.InDelta(t, 30, flows(day), 1)
	back(24 * 3600)
	assert.InDelta(t, 0, flows(day), 0.01)
	_, err = conn.Exec(t.Context(), "ROLLBACK")
	require.NoError(t, err)
}
