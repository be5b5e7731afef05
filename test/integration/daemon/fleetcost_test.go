package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/fleet"
	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
	"codex-proxy/proxy/usage"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

const (
	manyHosts       = 1000
	hostConnections = 20 // as behind PgBouncer
	keysInUse       = 5
	measured        = 30 * time.Second
)

// A thousand hosts cost the server a part of a processor: each makes its exchange of a second, with the shares of five
// keys in use on all hosts, and the usage of one.
func TestThousandHosts(t *testing.T) { bed.Figures(t, testThousandHosts) }

func testThousandHosts(t *testing.T, suite string) {
	b := bed.NewOn(t, machine.Debian(suite, "postgresql"), bed.RealWorker, "")
	certificate, authority := bed.Certify(t, databaseName)
	b.MustRun(t, "sh", "-c", `echo "max_connections = 1100" >>"$(echo /etc/postgresql/*/main/postgresql.conf)"`)
	startPostgres(b, certificate.Certificate[0], certificate.PrivateKey)
	b.MustRun(t, "runuser", "-u", "postgres", "--", "psql", "-v", "ON_ERROR_STOP=1", "-c",
		"CREATE ROLE codex LOGIN PASSWORD 'secret'", "-c", "CREATE DATABASE codex OWNER codex")
	conns := make(chan *pgx.Conn, hostConnections)
	for range hostConnections {
		conns <- connectPostgres(t, b.Machine, "secret")
	}
	conn := <-conns
	_, err := fleet.Migrate(t.Context(), conn)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO codex.hosts (name, machine, version) "+
		"SELECT 'host' || n, 'm' || n, '1' FROM generate_series(0, $1) n", manyHosts-1)
	require.NoError(t, err)
	conns <- conn

	p := &thousand{conns: conns}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+measured)
	defer cancel()
	var hosts sync.WaitGroup
	for i := range manyHosts {
		hosts.Go(func() { p.play(ctx, i) })
	}
	pause(ctx, 10*time.Second) // the hosts have begun long ago
	p.reset()
	before, began := cpuOf(b), time.Now()
	hosts.Wait()
	used := (cpuOf(b) - before).Seconds() / time.Since(began).Seconds()
	slices.Sort(p.times)
	at := func(part float64) time.Duration { return p.times[int(part*float64(len(p.times)-1))] }
	t.Logf("%d hosts: %.0f exchanges a second, %.1f %% of a processor, p50 %v, p99 %v, longest %v", manyHosts,
		float64(len(p.times))/measured.Seconds(), 100*used, at(0.5), at(0.99), at(1))
	require.Empty(t, p.failed)
	assert.LessOrEqual(t, used, 0.3)
	assert.LessOrEqual(t, at(0.99), 10*time.Millisecond)
	allAtOnce(t, b, authority)
}

// allAtOnce has all hosts begin at the same moment, each with a TLS connection of its own. None fails when all are in use.
func allAtOnce(t *testing.T, b *bed.Bed, authority []byte) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(ca, authority, 0o600))
	address, err := postgres.ParseAddress("postgres://codex@" + databaseName + "/codex")
	require.NoError(t, err)
	server := postgres.Server{Address: address, CA: ca, Password: "secret", Relay: relayInto(t, b, filepath.Join(dir, "relay"))}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var hosts []*fleet.Exchange
	for i := range manyHosts { // the file of each has how many there are
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), fmt.Appendf(nil, "# hosts: %d\n", manyHosts), 0o600))
		hosts = append(hosts, fleet.NewExchange(fleet.Settings{
			Server: server, Host: fleet.Host{Name: fmt.Sprintf("host%d", i), Machine: fmt.Sprintf("m%d", i), Version: "1"},
			Keys: &auth.Keys{}, KeysMaxAge: time.Hour, Cache: filepath.Join(dir, strconv.Itoa(i)), Limits: limits.NewShares(),
			UsageRetention: 400, Replace: func(string) error { return nil }, Changed: func() {}, Outdated: func() {},
			Logger: slog.New(slog.DiscardHandler),
		}))
	}
	began := time.Now()
	for _, host := range hosts {
		running.Go(func() { _ = host.Run(ctx) })
	}
	away := func() (n int) {
		for _, host := range hosts {
			if host.Report().Away {
				n++
			}
		}
		return n
	}
	await.True(t, func() bool { return away() == 0 }, time.Minute, "not all hosts are in use")
	t.Logf("%d hosts at once: all in use after %v", manyHosts, time.Since(began))
	assert.LessOrEqual(t, time.Since(began), 30*time.Second)
	pause(ctx, 10*time.Second)
	assert.Zero(t, away(), "all stay in use")
	cancel()
	running.Wait()
}

// relayInto is a socket that leads to the server of a machine.
func relayInto(t *testing.T, b *bed.Bed, path string) string {
	t.Helper()
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := b.DialContext(context.Background(), "tcp", "127.0.0.1:5432")
				if err != nil {
					return
				}
				defer server.Close()
				go func() {
					_, _ = io.Copy(server, client)
					server.Close()
				}()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	return path
}

// cpuOf is the CPU time of the server.
func cpuOf(b *bed.Bed) time.Duration {
	b.T.Helper()
	out := b.MustRun(b.T, "sh", "-c",
		`systemctl show --value --property=CPUUsageNSec "postgresql@$(cd /etc/postgresql && echo */main | tr / -)"`)
	n, err := strconv.ParseInt(bed.Trim(out), 10, 64)
	require.NoError(b.T, err)
	return time.Duration(n)
}

// thousand plays the hosts.
type thousand struct {
	conns chan *pgx.Conn

	mu     sync.Mutex
	times  []time.Duration
	failed []error
}

func (p *thousand) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = nil
}

// play makes the exchanges of one host. Its clients send a request a second with each key.
func (p *thousand) play(ctx context.Context, i int) {
	shares := make([]*share.Share, keysInUse)
	for k := range shares {
		shares[k] = share.New()
		shares[k].Set(share.Limit{Most: 2 * 60 * manyHosts, Refill: 2 * manyHosts})
	}
	q := fleet.Question{Host: fleet.Host{Name: fmt.Sprintf("host%d", i), Machine: fmt.Sprintf("m%d", i), Version: "1"},
		Process: "p", First: true}
	pause(ctx, rand.N(time.Second)) // they do not march in step
	for n := int64(1); ctx.Err() == nil; n++ {
		q.Asks = asksOf(shares)
		q.Count = rand.IntN(manyHosts) < 2
		q.Sweep = q.Count && n > 6
		q.Usage = []usage.Row{{Period: "2026-01-31", Key: "key0", Model: "m", Account: "a", Source: "s",
			Counts: usage.Counts{Requests: n}}}
		began := time.Now()
		conn := <-p.conns
		got, err := fleet.Ask(ctx, conn, q)
		p.conns <- conn
		if ctx.Err() != nil {
			return
		}
		took := time.Since(began)
		p.done(took, err)
		for k, answer := range got.Shares {
			shares[k].Answered(answer, manyHosts, time.Now())
		}
		q.First, q.Known = false, got.Revision
		pause(ctx, time.Duration((0.9+0.2*rand.Float64())*float64(time.Second))-took)
	}
}

// asksOf are the asks after one request with each key.
func asksOf(shares []*share.Share) (asks []limits.Ask) {
	for k, one := range shares {
		now := time.Now()
		if one.Arrive(1, now); one.Has(1, now) {
			one.Use(1)
		}
		ask, _ := one.Ask(now)
		asks = append(asks, limits.Ask{Key: fmt.Sprintf("key%d", k), Kind: auth.RequestsPerMinute, Ask: ask})
	}
	return asks
}

func (p *thousand) done(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = append(p.times, took)
	if err != nil {
		p.failed = append(p.failed, err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
