package integration

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/machine"
)

const (
	// chaosEnv is the duration of TestChaos, chaosSeedEnv its seed.
	chaosEnv     = "CODEX_PROXY_TEST_CHAOS"
	chaosSeedEnv = "CODEX_PROXY_TEST_CHAOS_SEED"
	chaosLength  = 30 * time.Second
)

// Under load and faults of every kind, each request gets a complete answer or an error
// that permits a retry, and in the end nothing is left over.
func TestChaos(t *testing.T) {
	bothSuites(t, testChaos)
}

func testChaos(t *testing.T, suite string) {
	length, seed := chaosLength, rand.Uint64()
	if text := os.Getenv(chaosEnv); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err, chaosEnv)
	}
	if text := os.Getenv(chaosSeedEnv); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, chaosSeedEnv)
	}
	t.Logf("%s of chaos, %s=%d", length, chaosSeedEnv, seed)

	// A worker counts as healthy sooner than by default, as suits a service with a
	// crash every few seconds.
	b := newBed(t, suite, onceWorker, crowdConfig+"reset_after = \"3s\"\n"+even).
		withAccounts(onceWorker, append(chaosAccounts, "d")...)
	b.start()
	b.untilWorkersReady()
	b.warm()
	before := b.remains()
	c := &chaos{bed: b, crowd: b.crowd(seed, 30*time.Second), random: rand.New(rand.NewPCG(seed, 0)),
		happened: map[string]int{}}
	c.errands, c.remote = b.errands(seed), b.remoteErrands()
	c.rage(length)
	c.crowd.leave(t)
	c.errands.leave(t)
	c.remote.leave()
	c.commands.Wait()
	b.settle()
	c.account()
	c.accountErrands()
	c.remote.account()
	b.assertNothingLeft(before)
}

// chaos causes the faults.
type chaos struct {
	bed      *accountsBed
	crowd    *crowd
	errands  *errands
	remote   *remoteErrands
	random   *rand.Rand
	commands sync.WaitGroup // of an operator; each may take as long as a turn
	happened map[string]int
	kills    []within // of the proxy
}

// rage causes one fault after the other, all of them in every round, in a new order
// each time.
func (c *chaos) rage(length time.Duration) {
	until := time.Now().Add(length)
	actions := []struct {
		name string
		do   func() bool // false: the fault was not possible
	}{
		{"kill -9 worker", func() bool { return c.signalWorker(unix.SIGKILL) }},
		{"SIGSTOP worker", func() bool { return c.signalWorker(unix.SIGSTOP) }},
		{"kill -9 remote's codex", func() bool { return c.killRemote("/run/codex-remote-run/") }},
		{"kill -9 remote's keeper", func() bool { return c.killRemote("/usr/bin/codex-proxy remote-exec") }},
		{"restart remote", func() bool { return c.systemctl("restart", c.remote.unit) }},
		{"kill -9 proxy", c.killProxy},
		{"reload", func() bool { return c.systemctl("reload", proxyUnit) }},
		{"restart proxy", func() bool { return c.systemctl("restart", proxyUnit) }},
		{"restart worker", func() bool { return c.systemctl("restart", c.worker()) }},
		{"dbus restart", func() bool { return c.systemctl("restart", "dbus.service") }},
		{"model endpoint down", c.endpointDown},
		{"daemon-reload", func() bool { return c.systemctl("daemon-reload") }},
		{"quota runs out", c.quotaRunsOut},
		{"quota resets early", c.quotaResets},
		{"login invalidated", c.loginInvalidated},
		{"reading hangs", c.readingHangs},
	}
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		for _, i := range c.random.Perm(len(actions)) {
			a := actions[i]
			c.bed.t.Logf("%s %s", time.Now().Format("05.000"), a.name)
			require.Eventually(c.bed.t, a.do, bound, 20*time.Millisecond, a.name)
			c.happened[a.name]++
			pause(c.bed.t.Context(), time.Duration(2000+c.random.IntN(3000))*time.Millisecond)
		}
	}
	c.bed.t.Logf("what happened: %v", c.happened)
}

// worker is the unit of any worker.
func (c *chaos) worker() string {
	units := c.bed.workerUnits()
	return units[c.random.IntN(len(units))]
}

func (c *chaos) signalWorker(s unix.Signal) bool {
	processes, err := c.bed.Processes(c.worker())
	at := slices.IndexFunc(processes, isCodex)
	return err == nil && at >= 0 && unix.Kill(processes[at].Host, s) == nil
}

// killRemote kills the process of the remote whose command begins so.
func (c *chaos) killRemote(command string) bool {
	processes, err := c.bed.Processes(c.remote.unit)
	at := slices.IndexFunc(processes, func(p machine.Process) bool { return strings.HasPrefix(p.Command, command) })
	return err == nil && at >= 0 && unix.Kill(processes[at].Host, unix.SIGKILL) == nil
}

func (c *chaos) killProxy() bool {
	pid, err := c.bed.MainPID(c.bed.t.Context(), proxyUnit)
	at := time.Now()
	if err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
		return false // between two processes
	}
	c.kills = append(c.kills, within{at, c.bed.awaitDeath(machine.Process{Host: pid})})
	return true
}

// systemctl is an operator's command, which may fail: a process that is killed during
// its reload fails to reload.
func (c *chaos) systemctl(args ...string) bool {
	c.commands.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		began := time.Now()
		_, stderr, err := c.bed.Run(ctx, append([]string{"systemctl"}, args...)...)
		assert.NoError(c.bed.t, ctx.Err(), "systemctl %s hangs", args)
		if err != nil {
			c.bed.t.Logf("systemctl %s, begun %s: %v %s", strings.Join(args, " "), began.Format("05.000"),
				err, trim(stderr))
		}
	})
	return true
}

// endpointDown closes the model endpoint for a while.
func (c *chaos) endpointDown() bool {
	c.bed.endpoint.down()
	pause(c.bed.t.Context(), time.Duration(500+c.random.IntN(1500))*time.Millisecond)
	assert.NoError(c.bed.t, c.bed.endpoint.up())
	return true
}

// account asserts the outcome of each request.
func (c *chaos) account() {
	t := c.bed.t
	ends, asked := map[string]int{}, c.bed.asked()
	for _, e := range c.crowd.which(func(*entry) bool { return true }) {
		switch {
		case e.complete():
			ends["complete"]++
		case e.told():
			ends["retry permitted: "+e.code]++
		case e.usedUp():
			ends["the quota ran out in mid-stream"]++
		case slices.ContainsFunc(c.kills, e.cutBy):
			// A killed process sends nothing to its clients.
			ends["cut by a kill of the proxy"]++
		default:
			ends["broken"]++
			assert.Fail(t, "neither complete nor permitted to retry", "%s", e)
		}
		c.assertAskedOnce(e, asked[e.id])
	}
	t.Logf("the ledger: %v; %d kills of the proxy", ends, len(c.kills))
	assert.Greater(t, ends["complete"], c.happenings())
	assert.LessOrEqual(t, ends["cut by a kill of the proxy"], len(c.kills)*crowdSize)
	assert.LessOrEqual(t, ends["the quota ran out in mid-stream"], c.bed.allRefused())
}

func (c *chaos) happenings() (n int) {
	for _, times := range c.happened {
		n += times
	}
	return n
}

// maxAttempts is how often a turn runs.
const maxAttempts = 3

// assertAskedOnce asserts that the model endpoint gets as many requests as the proxy
// reports attempts, and none after the client has received text. The header of a stream
// has the attempts until then: a turn can run again after a comment has sent it.
func (c *chaos) assertAskedOnce(e *entry, asked []time.Time) {
	for _, at := range asked {
		assert.True(c.bed.t, e.first.IsZero() || at.Before(e.first), "asked again after the first byte: %s", e)
	}
	switch {
	case e.commented:
		assert.LessOrEqual(c.bed.t, len(asked), maxAttempts, "%s", e)
	case e.status != 0:
		assert.LessOrEqual(c.bed.t, len(asked), e.attempts, "%s", e)
	}
	if e.complete() {
		assert.NotEmpty(c.bed.t, asked, "nobody answered: %s", e)
	}
}

// asked is the arrival times of each request at the model endpoint, by its id.
func (b *bed) asked() map[string][]time.Time {
	all := map[string][]time.Time{}
	for _, turn := range b.models.Turns() {
		if turn.Body.Input == nil {
			continue // refused in its stream
		}
		text := string(turn.Body.Input[len(turn.Body.Input)-1])
		if _, rest, ok := strings.Cut(text, `"text":"q`); ok {
			id, _, _ := strings.Cut("q"+rest, " ")
			all[id] = append(all[id], turn.At)
		}
	}
	return all
}
