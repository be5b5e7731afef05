package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
)

// The promises about restarts hold under the load of a crowd.
func TestUnderLoad(t *testing.T) { bothSuitesInTurn(t, testUnderLoad) }

func testUnderLoad(t *testing.T, suite string) {
	// Half a second of health is enough to reset the restart delay.
	b := newBed(t, suite, realWorker, crowdConfig+"reset_after = \"500ms\"\nready_timeout = \"1m\"\n")
	b.dropIn(proxyUnit, "test", "[Service]\nWatchdogSec=10s\n") // a missing ping is noticed
	b.start()
	b.signal(b.codex(), unix.SIGKILL)
	b.until("restarted", func(status int, r report) bool { return ready(status, r) && r.Workers[0].RestartsTotal == 1 })
	next := b.nextPackage()
	c := b.crowd(1, 30*time.Second)
	c.reach(t, 150)
	b.reloads(c, next)
	c.longest.Store(int64(5 * time.Second))
	b.workerKills(c)
	b.proxyKills(c)
	assert.Empty(t, c.which(func(e *entry) bool { return e.refused }), "refused")
}

// nextPackage is the package with a higher version.
func (b *bed) nextPackage() string {
	b.t.Helper()
	require.NoError(b.t, b.CopyIn(os.Getenv("CODEX_PROXY_TEST_DEB"), "/tmp/now.deb"))
	b.MustRun(b.t, "sh", "-ec", `cd /tmp; dpkg-deb -R now.deb next; sed -i 's/^Version: .*/Version: 99.0/' next/DEBIAN/control; dpkg-deb -Zgzip -z1 -b next next.deb`)
	local := filepath.Join(b.t.TempDir(), "next.deb")
	next, err := b.ReadFile("/tmp/next.deb")
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(local, next, 0o644))
	return local
}

func (b *bed) version() string {
	b.t.Helper()
	return trim(b.MustRun(b.t, "dpkg-query", "-W", "-f=${Version}", "codex-proxy"))
}

// reloads are ten, and an upgrade. They fail no request, break no stream and delay none.
func (b *bed) reloads(c *crowd, next string) {
	worker := b.codex()
	socket := b.show("codex-proxy.socket", "ActiveEnterTimestampMonotonic")
	during := within{from: time.Now()}
	var took sample
	for range 10 {
		before, began := b.mainPID(), time.Now()
		b.MustRun(b.t, "systemctl", "reload", proxyUnit)
		took = append(took, time.Since(began))
		assert.NotEqual(b.t, before, b.mainPID(), "the same process still serves")
		c.reach(b.t, 20)
	}
	before := b.mainPID()
	b.MustRun(b.t, "systemctl", "kill", "--kill-who=main", "--signal=HUP", proxyUnit)
	require.Eventually(b.t, func() bool {
		now := b.show(proxyUnit, "MainPID", "ActiveState")
		return now["MainPID"] != before && now["ActiveState"] == "active"
	}, bound, 20*time.Millisecond, "SIGHUP does not reload")
	before = b.mainPID()
	version := b.version()
	out, err := b.InstallDeb(b.t.Context(), next)
	require.NoError(b.t, err, out)
	assert.NotEqual(b.t, before, b.mainPID())
	assert.NotEqual(b.t, version, b.version())
	c.reach(b.t, 20)
	during.to = time.Now()

	// Wait until the last earlier stream has ended.
	calm := within{from: during.to}
	c.reach(b.t, len(c.which(during.began)))
	require.Eventually(b.t, func() bool { return len(c.open(during.to)) == 0 }, 2*bound, 10*time.Millisecond)
	calm.to = time.Now()
	assert.Empty(b.t, c.which(func(e *entry) bool { return !e.complete() }), "failed or broken")
	loaded, quiet := c.latencies(during), c.latencies(calm)
	b.t.Logf("systemctl reload: %s; upgrade and all took %s", took, during.to.Sub(during.from).Round(time.Second))
	b.t.Logf("latency of requests meanwhile: %s; in calm: %s", loaded, quiet)

	b.awaitSole()
	assert.Equal(b.t, worker, b.codex(), "the worker must not notice")
	assert.Equal(b.t, socket, b.show("codex-proxy.socket", "ActiveEnterTimestampMonotonic"))
	_, r := b.readyz()
	assert.Equal(b.t, uint64(1), r.Workers[0].RestartsTotal, "a counter went back")
	b.assertSmooth()
	assert.Less(b.t, loaded.quantile(0.5)-quiet.quantile(0.5), slowest*10*time.Millisecond)
}

// workerKills are twenty. They fail no request whose client has nothing of the answer;
// the other requests end in an error at once, and the worker is soon ready again.
func (b *bed) workerKills(c *crowd) {
	during := within{from: time.Now()}
	var kills []time.Time
	var again sample
	longest := ""
	for range 20 {
		b.awaitReset()
		// A request runs three times at most: those that the last kill interrupted are
		// served before the next one.
		require.Eventually(b.t, func() bool {
			return c.begun() >= 4 && c.waiting(lastBefore(kills, time.Now())) == 0
		}, bound, time.Millisecond)
		codex := b.codex()
		_, r := b.readyz()
		restarts := r.Workers[0].RestartsTotal
		kills = append(kills, time.Now())
		b.signal(codex, unix.SIGKILL)
		r, back := b.until("restarted", func(status int, r report) bool {
			return ready(status, r) && r.Workers[0].RestartsTotal > restarts
		})
		again = append(again, back.Sub(kills[len(kills)-1]))
		if again[len(again)-1] == again.quantile(1) {
			longest = steps(r.Workers[0].Transitions)
		}
	}
	during.to = time.Now()
	require.Eventually(b.t, func() bool { return len(c.open(during.to)) == 0 }, 2*bound, 10*time.Millisecond)
	lost := c.which(func(e *entry) bool { return !e.ended.Before(during.from) && !e.complete() })
	var ended sample
	for _, e := range lost {
		if assert.False(b.t, e.first.IsZero(), "failed without a first byte: %s", e) &&
			assert.True(b.t, e.told(), "%s", e) {
			assert.Equal(b.t, map[bool]string{false: "worker_exited", true: "overloaded_error"}[e.messages], e.code)
			ended = append(ended, e.ended.Sub(lastBefore(kills, e.ended)))
		}
	}
	run := c.which(func(e *entry) bool { return during.began(e) && e.complete() && e.attempts > 1 })
	require.NotEmpty(b.t, ended)
	b.t.Logf("%d kills of the worker: ready again %s, the slowest: %s; %d of %d requests had begun, their error ended %s after; %d were run again",
		len(kills), again, longest, len(ended), len(c.which(during.began)), ended, len(run))
	assert.Less(b.t, again.best(), slowest*600*time.Millisecond)
	assert.Less(b.t, ended.best(), slowest*100*time.Millisecond)
}

// steps are the last states of a worker and how long each took.
func steps(all []probes.Transition) string {
	text := ""
	for i := max(1, len(all)-4); i < len(all); i++ {
		text += fmt.Sprintf("%s %s, ", all[i-1].Reason, all[i].At.Sub(all[i-1].At).Round(time.Millisecond))
	}
	return text + string(all[len(all)-1].Reason)
}

// lastBefore is the latest of some times before another one.
func lastBefore(times []time.Time, end time.Time) (last time.Time) {
	for _, at := range times {
		if at.Before(end) {
			last = at
		}
	}
	return last
}

// proxyKills are ten. They refuse no connection, and the service is back at once. A
// killed process cannot answer its clients: their requests are cut.
func (b *bed) proxyKills(c *crowd) {
	worker := b.codex()
	ctx, stop := context.WithCancel(b.t.Context())
	opened := b.connecting(ctx)
	began := time.Now()
	var kills []within
	var back sample
	cut := 0
	for range 10 {
		c.reach(b.t, 10)
		b.http.CloseIdleConnections()
		proxy := b.onlyProcess(proxyUnit)
		at := time.Now()
		b.signal(proxy, unix.SIGKILL)
		kills = append(kills, within{at, b.awaitDeath(proxy)})
		// The first connection after the kill waits in the socket's backlog.
		_, again := b.until("ready", ready)
		back = append(back, again.Sub(at))
	}
	stop()
	connections := <-opened
	c.reach(b.t, 10)
	c.leave(b.t)
	lost := c.which(func(e *entry) bool { return !e.ended.Before(began) && !e.complete() })
	for _, e := range lost {
		assert.True(b.t, slices.ContainsFunc(kills, e.cutBy), "not cut by a kill: %s", e)
		cut++
	}
	b.t.Logf("%d kills of the proxy: ready again %s; %d requests were cut; %d connections made meanwhile", len(kills),
		back, cut, connections)
	assert.Less(b.t, back.best(), slowest*300*time.Millisecond)
	assert.Equal(b.t, worker, b.codex(), "the worker must not notice")
}
