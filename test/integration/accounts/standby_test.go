package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/accountserver"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// oneWarm keeps one worker started.
const oneWarm = "[accounts]\nrotation = \"ordered\"\nwarm = 1\nidle_stop = \"3s\"\n"

func unitOf(worker string) string { return "codex-worker@" + worker + ".service" }

// reasons are those of the workers, in their order.
func reasons(r bed.Report) string {
	var all []string
	for _, w := range r.Workers {
		all = append(all, w.Name+" "+string(w.Reason))
	}
	return strings.Join(all, ", ")
}

// untilReasons waits until the workers are so.
func untilReasons(b *bed.Bed, want string) bed.Report {
	b.T.Helper()
	r, _ := b.Until(want, func(_ int, r bed.Report) bool { return reasons(r) == want })
	return r
}

// assertOffDuty asserts that a standby has no process, and that nothing complains of it.
func assertOffDuty(b *bed.Bed, worker string) {
	b.T.Helper()
	t, unit := b.T, unitOf(worker)
	processes, err := b.Processes(unit)
	require.NoError(t, err)
	assert.Empty(t, processes)
	assert.Equal(t, map[string]string{
		"ActiveState": "inactive", "SubState": "dead", "Result": "success", "NRestarts": "0", "ExecMainStatus": "150",
	}, b.Properties(unit, "ActiveState", "SubState", "Result", "NRestarts", "ExecMainStatus"))
	assert.Equal(t, "active", b.Properties("codex-worker@"+worker+".socket", "ActiveState")["ActiveState"])
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_state{state="standby",worker="`+worker+`"} 1`)
	assert.Contains(t, string(metrics), `codex_worker_consecutive_failures{worker="`+worker+`"} 0`)
	doctor, _, _ := b.Run(t.Context(), "codex-proxy", "doctor")
	assert.Contains(t, doctor, "worker "+worker+": is a standby")
	assert.NotRegexp(t, `(?m)^(fail|warn).*codex-worker@`+worker, doctor)
	status := b.MustRun(t, "codex-proxy", "status")
	assert.Regexp(t, `codex-worker@`+worker+`\.service +inactive \(dead\) +no +standby`, status)
}

// spend sets what an account has used of its window of five hours, and lets a turn report it.
func spend(a *bed.AccountsBed, account string, percent float64) {
	a.T.Helper()
	a.Server.Account(account).Change(func(q *accountserver.Quota) { q.Windows[0].Used = percent })
	before := len(a.Server.Account(account).Record().Turns)
	bed.AskOpenAI(a.Bed)
	assert.Len(a.T, a.Server.Account(account).Record().Turns, before+1, "the turn ran on %s", account)
}

// With warm = 1 the workers of accounts that are not in use are stopped soon after the
// start of the service, and not as failures. The successor is started at the mark, so that
// the rotation is one choice; then the worker of the account before is stopped.
func TestStandby(t *testing.T) { bed.BothSuites(t, testStandby) }

func testStandby(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, oneWarm, "a", "b", "c", "d")
	b.Start()
	r := untilReasons(b.Bed, "a ready, b standby, c standby, d standby")
	assert.Empty(t, r.Health.Readiness.Details)
	for _, name := range []string{"b", "c", "d"} {
		assertOffDuty(b.Bed, name)
		assert.NotEmpty(t, b.Server.Account(name).Record().Readings, "%s was read before its worker was stopped", name)
	}
	b.UntilStatus("Ready: 1 of 4 workers; 3 on standby")

	spend(b, "a", 80)
	spend(b, "a", 90) // at most 10 % is left
	untilReasons(b.Bed, "a ready, b ready, c standby, d standby")
	spend(b, "a", 95)
	b.UntilMetric(`codex_account_in_use{account="b"} 1`)
	spend(b, "b", 50)
	untilReasons(b.Bed, "a standby, b ready, c standby, d standby")
	assertOffDuty(b.Bed, "a")

	// A start that fails is no reason to wait: the account after it is next.
	require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/c.toml", []byte("modle = \"x\"\n"), 0o644))
	spend(b, "b", 91)
	b.Until("d ready", func(_ int, r bed.Report) bool {
		return bed.ReasonOf(r, "b") == "ready" && bed.ReasonOf(r, "d") == "ready"
	})
	assert.NotEqual(t, "ready", bed.ReasonOf(r, "c"))
	bed.AskOpenAI(b.Bed)
	require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/c.toml", []byte(bed.PlainWorker), 0o644))
	b.MustRun(t, "systemctl", "restart", unitOf("c"))
	untilReasons(b.Bed, "a standby, b ready, c ready, d standby")

	events, err := b.Journal(t.Context(), "--unit="+bed.ProxyUnit, "CODEX_EVENT=worker-standby", "--output=cat")
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c", "d"} {
		t.Logf("%s went on standby %d times", name, strings.Count(events, "worker="+name+" "))
	}
}

// A request that only a stopped worker can serve starts it. It takes as long as a start.
func TestColdStandby(t *testing.T) { bed.EitherSuite(t, testColdStandby) }

func testColdStandby(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, oneWarm, "a", "b")
	b.Start()
	untilReasons(b.Bed, "a ready, b standby")
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "bob", "--accounts=b"))
	for range 3 {
		began := time.Now()
		askOpenAIWith(b.Bed, key)
		answered := time.Now()
		_, r := b.Readyz()
		warm := time.Now()
		askOpenAIWith(b.Bed, key)
		woken, ready := startOf(r.Workers[1])
		t.Logf("a cold turn took %s: %s until systemd started the worker, %s until it was ready, %s then; warm %s",
			answered.Sub(began), woken.Sub(began), ready.Sub(woken), answered.Sub(ready), time.Since(warm))
		untilReasons(b.Bed, "a ready, b standby")
	}
	assert.Len(t, b.Server.Account("b").Record().Turns, 6)
	assert.Empty(t, b.Server.Account("a").Record().Turns)

	// An operator keeps a worker down by its socket; a request does not start it then.
	b.MustRun(t, "systemctl", "stop", "codex-worker@b.socket")
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	client := openai.NewClient(option.WithBaseURL(bed.Base+"/v1"), option.WithAPIKey(key), option.WithHTTPClient(b.HTTP),
		option.WithMaxRetries(0))
	_, err := client.Chat.Completions.New(ctx, hello())
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	untilReasons(b.Bed, "a ready, b stopped")
	b.MustRun(t, "systemctl", "start", "codex.target")
	untilReasons(b.Bed, "a ready, b standby")
}

// startOf is when the last start of a ready worker began, and when that was ready.
func startOf(w probes.Worker) (began, ready time.Time) {
	for i, step := range w.Transitions {
		switch {
		case step.Reason == probes.Ready:
			ready = step.At
		case step.Reason == probes.Starting && i > 0 && w.Transitions[i-1].Reason == probes.Standby:
			began = step.At
		}
	}
	return began, ready
}

func hello() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: bed.OpenAIModel, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
	}
}

// askWith runs one turn with that API key.
func askOpenAIWith(b *bed.Bed, key string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	client := openai.NewClient(option.WithBaseURL(bed.Base+"/v1"), option.WithAPIKey(key), option.WithHTTPClient(b.HTTP),
		option.WithMaxRetries(0))
	_, err := client.Chat.Completions.New(ctx, hello())
	require.NoError(b.T, err)
}

// Whatever ends and begins again, the workers are as the plan has them soon after.
func TestStandbyAfterRestarts(t *testing.T) { bed.EitherSuite(t, testStandbyAfterRestarts) }

func testStandbyAfterRestarts(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, oneWarm, "a", "b", "c")
	b.Start()
	const settled = "a ready, b standby, c standby"
	untilReasons(b.Bed, settled)
	starts := func() map[string]string {
		all := map[string]string{}
		for _, name := range []string{"b", "c"} {
			all[name] = b.Properties(unitOf(name), "InvocationID")["InvocationID"]
		}
		return all
	}
	before := starts()
	require.NoError(t, b.CopyIn(os.Getenv("CODEX_PROXY_TEST_DEB"), "/tmp/now.deb"))
	for _, change := range [][]string{
		{"systemctl", "reload", "codex-proxy"},
		{"systemctl", "restart", "codex-proxy"},
		{"systemctl", "kill", "--signal=KILL", bed.ProxyUnit},
		{"dpkg", "-i", "/tmp/now.deb"},
	} {
		began := time.Now()
		b.MustRun(t, change...)
		eventually(b.Bed, settled)
		t.Logf("%v: settled after %s", change, time.Since(began))
	}
	assert.Equal(t, before, starts(), "no standby was started meanwhile")
	for _, change := range [][]string{ // the successor serves meanwhile
		{"systemctl", "restart", unitOf("a")},
		{"systemctl", "stop", unitOf("a")}, // it is needed: this has the effect of a restart
		{"systemctl", "kill", "--signal=KILL", unitOf("a")},
	} {
		b.MustRun(t, change...)
		eventually(b.Bed, settled)
	}

	b.MustRun(t, "systemctl", "restart", "codex.target")
	untilReasons(b.Bed, settled)
	b.MustRun(t, "systemctl", "stop", "codex.target")
	for _, name := range []string{"a", "b", "c"} {
		b.UntilShow(unitOf(name), "ActiveState", "inactive") // the command does not wait for them
	}
	b.MustRun(t, "systemctl", "start", "codex.target")
	untilReasons(b.Bed, settled)
}

// eventually is untilReasons while the service may be down for a moment.
func eventually(b *bed.Bed, want string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	for pace := (await.Pace{}); ; pace.Pause(ctx) {
		status, _, _ := b.Run(ctx, "codex-proxy", "status", "--json")
		var r bed.Report
		if json.Unmarshal([]byte(status), &r) == nil && r.OK && reasons(r) == want {
			return
		}
		require.NoError(b.T, ctx.Err(), "never %s: %s", want, status)
	}
}

// The end of the service or of a worker in the middle of a rotation loses nothing that the
// model endpoint has answered, and runs nothing twice.
func TestKillInRotation(t *testing.T) { bed.EitherSuite(t, testKillInRotation) }

func testKillInRotation(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, oneWarm, "a", "b", "c")
	b.Start()
	untilReasons(b.Bed, "a ready, b standby, c standby")
	spend(b, "a", 96) // at once below the mark of the rotation: the successor is cold
	killed := time.Now()
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.ProxyUnit)
	b.UntilMetric(`codex_account_in_use{account="b"} 1`)
	t.Logf("the account in use is right %s after the kill of the service", time.Since(killed))
	eventually(b.Bed, "a standby, b ready, c standby")
	turns := len(b.Server.Account("b").Record().Turns)
	bed.AskOpenAI(b.Bed)
	assert.Len(t, b.Server.Account("b").Record().Turns, turns+1)

	spend(b, "b", 96)
	b.Until("c comes", func(_ int, r bed.Report) bool { return bed.ReasonOf(r, "c") != "standby" })
	b.KillAll(processesOf(b.Bed, "c"))
	bed.AskOpenAI(b.Bed)
	b.Until("c ready", func(_ int, r bed.Report) bool { return bed.ReasonOf(r, "c") == "ready" })
	ran := 0
	for _, account := range b.Server.Accounts() {
		ran += len(account.Record().Turns)
	}
	assert.Equal(t, 4, ran, "each turn ran once")
}

func processesOf(b *bed.Bed, worker string) []machine.Process {
	b.T.Helper()
	processes, err := b.Processes(unitOf(worker))
	require.NoError(b.T, err)
	return processes
}

// Forty-nine standbys cost nothing: no process, and next to no CPU time of the service and
// of systemd beyond that of one worker alone.
func TestIdleStandby(t *testing.T) { bed.EitherSuite(t, testIdleStandby) }

func testIdleStandby(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, oneWarm, "a")
	b.Start()
	untilReasons(b.Bed, "a ready")
	alone := idleShare(b.Bed)
	var units []string
	for n := range bed.Fifty - 1 {
		name := fmt.Sprintf("w%d", n)
		require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/"+name+".toml", []byte(`mode = "demo"`), 0o644))
		units = append(units, unitOf(name))
	}
	b.MustRun(t, "sh", "-c", "systemctl start "+strings.Join(units, " "))
	b.MustRun(t, "systemctl", "reload", "codex-proxy")
	b.Until("one ready and the others standby", func(_ int, r bed.Report) bool {
		return strings.Count(reasons(r), " standby") == bed.Fifty-1 && bed.ReasonOf(r, "a") == "ready"
	})
	for n := range bed.Fifty - 1 {
		assert.Empty(t, processesOf(b.Bed, fmt.Sprintf("w%d", n)))
	}
	share := idleShare(b.Bed)
	t.Logf("%.3f %% CPU with one worker, %.3f %% with %d standbys beside it", alone, share, bed.Fifty-1)
	assert.LessOrEqual(t, share-alone, 0.1, "per cent of a CPU")
}

// idleShare is how many per cent of a CPU the service and systemd use while nothing happens.
func idleShare(b *bed.Bed) float64 {
	b.T.Helper()
	const span = 60 * time.Second // with the work of each minute
	groups := []string{"system.slice/" + bed.ProxyUnit, "init.scope"}
	var before, after time.Duration
	for _, group := range groups {
		before += used(b, group)
	}
	<-time.After(span) // the measurement is of time in which nothing happens
	for _, group := range groups {
		after += used(b, group)
	}
	return 100 * float64(after-before) / float64(span)
}

// used is the CPU time of a control group. A question to systemd would cost it some.
func used(b *bed.Bed, group string) time.Duration {
	b.T.Helper()
	stat := b.MustRun(b.T, "cat", "/sys/fs/cgroup/"+group+"/cpu.stat")
	var usec int64
	_, err := fmt.Sscanf(stat, "usage_usec %d", &usec)
	require.NoError(b.T, err, stat)
	return time.Duration(usec) * time.Microsecond
}
