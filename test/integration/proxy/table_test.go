package proxy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// The promises about restarts hold under the load of a crowd.
func TestUnderLoad(t *testing.T) {
	next := bed.NextDeb(t, os.Getenv("CODEX_PROXY_TEST_DEB"), "")
	bed.BothSuites(t, func(t *testing.T, suite string) { testUnderLoad(t, suite, next) })
}

func testUnderLoad(t *testing.T, suite, next string) {
	// Half a second of health is enough to reset the restart delay.
	b := bed.New(t, suite, bed.RealWorker, bed.CrowdConfig+"reset_after = \"500ms\"\nready_timeout = \"1m\"\n")
	b.DropIn(bed.ProxyUnit, "test", "[Service]\nWatchdogSec=10s\n") // a missing ping is noticed
	b.Start()
	b.Signal(b.Codex(), unix.SIGKILL)
	b.Until("restarted", func(status int, r bed.Report) bool { return bed.Ready(status, r) && r.Workers[0].RestartsTotal == 1 })
	c := bed.StartCrowd(b, 1, 30*time.Second)
	c.Reach(t, nightly.Or(150, 40))
	reloads(b, c, next)
	c.Longest.Store(int64(5 * time.Second))
	workerKills(b, c)
	proxyKills(b, c)
	assert.Empty(t, c.Which(func(e *bed.Entry) bool { return e.Refused }), "refused")
}

func packageVersion(b *bed.Bed) string {
	b.T.Helper()
	return bed.Trim(b.MustRun(b.T, "dpkg-query", "-W", "-f=${Version}", "codex-proxy"))
}

// reloads are some, and an upgrade. They fail no request, break no stream and delay none.
func reloads(b *bed.Bed, c *bed.Crowd, next string) {
	worker := b.Codex()
	socket := b.Properties("codex-proxy.socket", "ActiveEnterTimestampMonotonic")
	during := bed.Within{From: time.Now()}
	var took bed.Sample
	for range nightly.Or(10, 3) {
		before, began := b.ProxyPID(), time.Now()
		b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
		took = append(took, time.Since(began))
		assert.NotEqual(b.T, before, b.ProxyPID(), "the same process still serves")
		c.Reach(b.T, 20)
	}
	before := b.ProxyPID()
	b.MustRun(b.T, "systemctl", "kill", "--kill-who=main", "--signal=HUP", bed.ProxyUnit)
	await.True(b.T, func() bool {
		now := b.Properties(bed.ProxyUnit, "MainPID", "ActiveState")
		return now["MainPID"] != before && now["ActiveState"] == "active"
	}, bed.Bound, "SIGHUP does not reload")
	before = b.ProxyPID()
	version := packageVersion(b)
	out, err := b.InstallDeb(b.T.Context(), next)
	require.NoError(b.T, err, out)
	assert.NotEqual(b.T, before, b.ProxyPID())
	assert.NotEqual(b.T, version, packageVersion(b))
	c.Reach(b.T, 20)
	during.To = time.Now()

	// Wait until the last earlier stream has ended.
	calm := bed.Within{From: during.To}
	c.Reach(b.T, len(c.Which(during.Began)))
	await.True(b.T, func() bool { return len(c.Open(during.To)) == 0 }, 2*bed.Bound)
	calm.To = time.Now()
	assert.Empty(b.T, c.Which(func(e *bed.Entry) bool { return !e.Complete() }), "failed or broken")
	loaded, quiet := c.Latencies(during), c.Latencies(calm)
	b.T.Logf("systemctl reload: %s; upgrade and all took %s", took, during.To.Sub(during.From).Round(time.Second))
	b.T.Logf("latency of requests meanwhile: %s; in calm: %s", loaded, quiet)

	bed.AwaitSole(b)
	assert.Equal(b.T, worker, b.Codex(), "the worker must not notice")
	assert.Equal(b.T, socket, b.Properties("codex-proxy.socket", "ActiveEnterTimestampMonotonic"))
	_, r := b.Readyz()
	assert.Equal(b.T, uint64(1), r.Workers[0].RestartsTotal, "a counter went back")
	bed.AssertSmooth(b)
	// Other work of the machine makes both longer.
	assert.Less(b.T, loaded.Quantile(0.5), 2*quiet.Quantile(0.5)+bed.Slowest*10*time.Millisecond)
}

// workerKills fail no request whose client has nothing of the answer;
// the other requests end in an error at once, and the worker is soon ready again.
func workerKills(b *bed.Bed, c *bed.Crowd) {
	during := bed.Within{From: time.Now()}
	var kills []time.Time
	var again bed.Sample
	longest := ""
	for range nightly.Or(20, 5) {
		awaitReset(b)
		// A request runs three times at most: those that the last kill interrupted are
		// served before the next one.
		await.True(b.T, func() bool {
			return begun(c.Ledger) >= 4 && waiting(c.Ledger, lastBefore(kills, time.Now())) == 0
		}, bed.Bound)
		codex := b.Codex()
		_, r := b.Readyz()
		restarts := r.Workers[0].RestartsTotal
		kills = append(kills, time.Now())
		b.Signal(codex, unix.SIGKILL)
		r, back := b.Until("restarted", func(status int, r bed.Report) bool {
			return bed.Ready(status, r) && r.Workers[0].RestartsTotal > restarts
		})
		again = append(again, back.Sub(kills[len(kills)-1]))
		if again[len(again)-1] == again.Quantile(1) {
			longest = steps(r.Workers[0].Transitions)
		}
	}
	during.To = time.Now()
	await.True(b.T, func() bool { return len(c.Open(during.To)) == 0 }, 2*bed.Bound)
	lost := c.Which(func(e *bed.Entry) bool { return !e.Ended.Before(during.From) && !e.Complete() })
	var ended bed.Sample
	for _, e := range lost {
		if assert.False(b.T, e.First.IsZero(), "failed without a first byte: %s", e) &&
			assert.True(b.T, e.Told(), "%s", e) {
			assert.Equal(b.T, map[bool]string{false: "worker_exited", true: "overloaded_error"}[e.Messages], e.Code)
			ended = append(ended, e.Ended.Sub(lastBefore(kills, e.Ended)))
		}
	}
	run := c.Which(func(e *bed.Entry) bool { return during.Began(e) && e.Complete() && e.Attempts > 1 })
	require.NotEmpty(b.T, ended)
	b.T.Logf("%d kills of the worker: ready again %s, the slowest: %s; %d of %d requests had begun, their error ended %s after; %d were run again",
		len(kills), again, longest, len(ended), len(c.Which(during.Began)), ended, len(run))
	assert.Less(b.T, again.Best(), bed.Slowest*600*time.Millisecond)
	assert.Less(b.T, ended.Best(), bed.Slowest*100*time.Millisecond)
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

// proxyKills refuse no connection, and the service is back at once. A
// killed process cannot answer its clients: their requests are cut.
func proxyKills(b *bed.Bed, c *bed.Crowd) {
	worker := b.Codex()
	ctx, stop := context.WithCancel(b.T.Context())
	opened := connecting(b, ctx)
	began := time.Now()
	var kills []bed.Within
	var back bed.Sample
	cut := 0
	for range nightly.Or(10, 3) {
		c.Reach(b.T, 10)
		b.HTTP.CloseIdleConnections()
		proxy := b.OnlyProcess(bed.ProxyUnit)
		at := time.Now()
		b.Signal(proxy, unix.SIGKILL)
		kills = append(kills, bed.Within{From: at, To: b.AwaitDeath(proxy)})
		// The first connection after the kill waits in the socket's backlog.
		_, again := b.Until("ready", bed.Ready)
		back = append(back, again.Sub(at))
	}
	stop()
	connections := <-opened
	c.Reach(b.T, 10)
	c.Leave(b.T)
	lost := c.Which(func(e *bed.Entry) bool { return !e.Ended.Before(began) && !e.Complete() })
	for _, e := range lost {
		assert.True(b.T, slices.ContainsFunc(kills, e.CutBy), "not cut by a kill: %s", e)
		cut++
	}
	b.T.Logf("%d kills of the proxy: ready again %s; %d requests were cut; %d connections made meanwhile", len(kills),
		back, cut, connections)
	assert.Less(b.T, back.Best(), bed.Slowest*300*time.Millisecond)
	assert.Equal(b.T, worker, b.Codex(), "the worker must not notice")
}
