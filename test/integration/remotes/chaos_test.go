package remotes

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

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
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
	bed.EitherSuite(t, testChaos)
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
	worker := chaosWorker()
	b := bed.WithAccounts(bed.New(t, suite, worker, bed.CrowdConfig+"reset_after = \"3s\"\n"+even), worker, append(chaosAccounts, "d")...)
	b.Start()
	b.UntilWorkersReady()
	b.Warm()
	before := findRemains(b)
	c := &chaos{bed: b, crowd: bed.StartCrowd(b.Bed, seed, 30*time.Second), random: rand.New(rand.NewPCG(seed, 0)),
		happened: map[string]int{}}
	c.errands, c.remote = startErrands(b.Bed, seed), startRemoteErrands(b.Bed)
	c.rage(length)
	c.crowd.Leave(t)
	c.errands.leave(t)
	c.remote.leave()
	c.commands.Wait()
	settle(b.Bed)
	c.account()
	c.accountErrands()
	c.remote.account()
	assertNothingLeft(b, before)
}

// chaos causes the faults.
type chaos struct {
	bed      *bed.AccountsBed
	crowd    *bed.Crowd
	errands  *errands
	remote   *remoteErrands
	random   *rand.Rand
	commands sync.WaitGroup // of an operator; each may take as long as a turn
	happened map[string]int
	kills    []bed.Within // of the proxy
}

// rage causes one fault after the other, all of them in every round, in a new order
// each time.
func (c *chaos) rage(length time.Duration) {
	until := time.Now().Add(length)
	type action struct {
		name string
		do   func() bool // false: the fault was not possible
	}
	actions := []action{
		{"kill -9 worker", func() bool { return c.signalWorker(unix.SIGKILL) }},
		{"SIGSTOP worker", func() bool { return c.signalWorker(unix.SIGSTOP) }},
		{"kill -9 remote's codex", func() bool { return c.killRemote("/run/codex-remote-run/") }},
		{"kill -9 remote's main process", func() bool { return c.killRemote("/usr/bin/codex-proxy remote-exec") }},
		{"restart remote", func() bool { return c.systemctl("restart", c.remote.Unit) }},
		{"kill -9 proxy", c.killProxy},
		{"reload", func() bool { return c.systemctl("reload", bed.ProxyUnit) }},
		{"restart proxy", func() bool { return c.systemctl("restart", bed.ProxyUnit) }},
		{"restart worker", func() bool { return c.systemctl("restart", c.worker()) }},
		{"dbus restart", func() bool { return c.systemctl("restart", "dbus.service") }},
		{"model endpoint down", c.endpointDown},
		{"daemon-reload", func() bool { return c.systemctl("daemon-reload") }},
		{"quota runs out", c.quotaRunsOut},
		{"quota resets early", c.quotaResets},
		{"login invalidated", c.loginInvalidated},
		{"reading hangs", c.readingHangs},
	}
	if bed.OneProcess() {
		actions = append(actions, action{"kill -9 broker", c.killBroker})
	}
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		for _, i := range c.random.Perm(len(actions)) {
			a := actions[i]
			c.bed.T.Logf("%s %s", time.Now().Format("05.000"), a.name)
			await.True(c.bed.T, a.do, bed.Bound, a.name)
			c.happened[a.name]++
			bed.Pause(c.bed.T.Context(), time.Duration(2000+c.random.IntN(3000))*time.Millisecond)
		}
	}
	c.bed.T.Logf("what happened: %v", c.happened)
}

// worker is the unit of any worker.
func (c *chaos) worker() string {
	units := servingUnits(c.bed)
	return units[c.random.IntN(len(units))]
}

func (c *chaos) signalWorker(s unix.Signal) bool {
	processes, err := c.bed.Processes(c.worker())
	at := slices.IndexFunc(processes, bed.IsCodex)
	return err == nil && at >= 0 && unix.Kill(processes[at].Host, s) == nil
}

// killBroker kills the way of the one codex to its model.
func (c *chaos) killBroker() bool {
	processes, err := c.bed.Processes("codex-broker@" + c.bed.Serving()[0] + ".service")
	return err == nil && len(processes) > 0 && unix.Kill(processes[0].Host, unix.SIGKILL) == nil
}

// killRemote kills the process of the remote whose command begins so.
func (c *chaos) killRemote(command string) bool {
	processes, err := c.bed.Processes(c.remote.Unit)
	at := slices.IndexFunc(processes, func(p machine.Process) bool { return strings.HasPrefix(p.Command, command) })
	return err == nil && at >= 0 && unix.Kill(processes[at].Host, unix.SIGKILL) == nil
}

func (c *chaos) killProxy() bool {
	pid, err := c.bed.MainPID(c.bed.T.Context(), bed.ProxyUnit)
	at := time.Now()
	if err != nil || unix.Kill(pid, unix.SIGKILL) != nil {
		return false // between two processes
	}
	c.kills = append(c.kills, bed.Within{From: at, To: c.bed.AwaitDeath(machine.Process{Host: pid})})
	return true
}

// systemctl is an operator's command, which may fail: a process that is killed during
// its reload fails to reload.
func (c *chaos) systemctl(args ...string) bool {
	c.commands.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bed.Hung)
		defer cancel()
		began := time.Now()
		_, stderr, err := c.bed.Run(ctx, append([]string{"systemctl"}, args...)...)
		assert.NoError(c.bed.T, ctx.Err(), "systemctl %s hangs", args)
		if err != nil {
			c.bed.T.Logf("systemctl %s, begun %s: %v %s", strings.Join(args, " "), began.Format("05.000"),
				err, bed.Trim(stderr))
		}
	})
	return true
}

// endpointDown closes the model endpoint for a while.
func (c *chaos) endpointDown() bool {
	down(c.bed.Endpoint)
	bed.Pause(c.bed.T.Context(), time.Duration(500+c.random.IntN(1500))*time.Millisecond)
	assert.NoError(c.bed.T, up(c.bed.Endpoint))
	return true
}

// account asserts the outcome of each request.
func (c *chaos) account() {
	t := c.bed.T
	ends, asked := map[string]int{}, asked(c.bed.Bed)
	for _, e := range c.crowd.Which(func(*bed.Entry) bool { return true }) {
		switch {
		case e.Complete():
			ends["complete"]++
		case e.Told():
			ends["retry permitted: "+e.Code]++
		case usedUp(e):
			ends["the quota ran out in mid-stream"]++
		case slices.ContainsFunc(c.kills, e.CutBy):
			// A killed process sends nothing to its clients.
			ends["cut by a kill of the proxy"]++
		default:
			ends["broken"]++
			assert.Fail(t, "neither complete nor permitted to retry", "%s", e)
		}
		c.assertAskedOnce(e, asked[e.ID])
	}
	t.Logf("the ledger: %v; %d kills of the proxy", ends, len(c.kills))
	assert.Greater(t, ends["complete"], c.happenings())
	assert.LessOrEqual(t, ends["cut by a kill of the proxy"], len(c.kills)*bed.CrowdSize)
	assert.LessOrEqual(t, ends["the quota ran out in mid-stream"], c.bed.AllRefused())
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
func (c *chaos) assertAskedOnce(e *bed.Entry, asked []time.Time) {
	for _, at := range asked {
		assert.True(c.bed.T, e.First.IsZero() || at.Before(e.First), "asked again after the first byte: %s", e)
	}
	switch {
	case e.Commented:
		assert.LessOrEqual(c.bed.T, len(asked), maxAttempts, "%s", e)
	case e.Status != 0:
		assert.LessOrEqual(c.bed.T, len(asked), e.Attempts, "%s", e)
	}
	if e.Complete() {
		assert.NotEmpty(c.bed.T, asked, "nobody answered: %s", e)
	}
}

// asked is the arrival times of each request at the model endpoint, by its id.
func asked(b *bed.Bed) map[string][]time.Time {
	all := map[string][]time.Time{}
	for _, turn := range b.Models.Turns() {
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
