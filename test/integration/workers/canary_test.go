package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/probes"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
	"codex-proxy/test/nightly"
)

// install puts a program in place of codex, by new files of the same names, as npm does. shell makes the program at
// $program from the one before, at $good.
func (b *copiesBed) install(version, shell string) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", `good=`+npm+`.good/bin/codex program=`+npm+`/bin/codex
		[ -e `+npm+`.good ] || cp -r `+npm+` `+npm+`.good
		rm -rf `+npm+`; cp -rl `+npm+`.good `+npm+`; rm $program `+npm+`/codex-package.json
		`+shell+`
		echo '{"version":"`+version+`"}' >`+npm+`/codex-package.json`)
}

func (b *copiesBed) awaitRunning(unit, version string) {
	b.T.Helper()
	await.True(b.T, func() bool { return strings.Contains(b.program(unit), "/"+version+"-") }, bed.Bound, unit+" changes to "+version)
}

// program is the program of the codex of a unit; empty if none runs.
func (b *copiesBed) program(unit string) string {
	processes, err := b.Processes(unit)
	if err != nil {
		return ""
	}
	for _, p := range processes {
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Host))
		if strings.HasSuffix(program, "bin/codex") {
			return program
		}
	}
	return ""
}

// crowd has the nightly number of clients and of remotes, and a second worker, so that the first changes under load.
func (b *copiesBed) crowd() {
	if !nightly.Is() {
		return
	}
	require.NoError(b.T, b.WriteFile("/etc/codex-proxy/workers/b.toml", []byte(inPath.Replace(bed.RealWorker)), 0o644))
	b.MustRun(b.T, "systemctl", "enable", "--now", "--quiet", second)
	b.MustRun(b.T, "systemctl", "restart", "codex-proxy")
	b.workers = append(b.workers, second)
	for _, name := range []string{"build2", "build3"} {
		b.addRemote(name)
	}
	b.Until("ready with both workers", func(status int, r probes.Report) bool {
		return status == http.StatusOK && !slices.ContainsFunc(r.Workers, func(w probes.Worker) bool { return !w.Ready })
	})
}

// second is the unit of the second worker.
const second = "codex-worker@b.service"

// breath is between two requests of a client of the load: by day this test is not the only one of the machine.
var breath = time.Duration(nightly.Or(0, 200)) * time.Millisecond

// load asks, every other client for a stream, and counts, until stop; each request has to succeed.
func (b *copiesBed) load() (stop func() int64) {
	ctx, cancel := context.WithCancel(b.T.Context())
	var done atomic.Int64
	var g errgroup.Group
	for client := range nightly.Or(32, 4) {
		g.Go(func() error {
			for ctx.Err() == nil {
				out := b.Ask(context.WithoutCancel(ctx), client%2 == 1, "[[text under]][[text  load]]")
				whole := strings.Contains(out.Body, "under load") || client%2 == 1 && strings.Contains(out.Body, "[DONE]") && !strings.Contains(out.Body, `"error"`)
				if out.Status != http.StatusOK || !whole {
					return fmt.Errorf("a request failed: %+v", out)
				}
				done.Add(1)
				bed.Pause(ctx, breath)
			}
			return nil
		})
	}
	return func() int64 {
		cancel()
		assert.NoError(b.T, g.Wait())
		return done.Load()
	}
}

// turns are a turn on each remote, and a client's stream.
type turns struct {
	*copiesBed
	gate   string
	stream *bed.Held
}

// inTurn has each remote begin a turn, and a client a stream, which last until finish.
func (b *copiesBed) inTurn(gate string) *turns {
	b.T.Helper()
	h := &turns{b, gate, bed.Hold(b.Bed, gate+"-client", 2*bed.Bound)}
	for _, r := range b.remotes {
		b.MustRun(b.T, "codex-proxy", "remotes", "send", r.Name, "[[text working]][[gate "+gate+"]][[text  and done]]")
	}
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.AtGate(gate, len(b.remotes)))
	require.NoError(b.T, err)
	return h
}

// finish ends the turns: each was asked for once, and none was cut.
func (h *turns) finish() {
	h.T.Helper()
	h.stream.Finish(h.Bed)
	h.Models.Release(h.gate)
	await.True(h.T, func() bool {
		asked := bed.TurnsWith(h.Bed, "[[gate "+h.gate+"]]")
		return len(asked) == len(h.remotes) && !slices.ContainsFunc(asked, modelserver.Request.Open)
	}, bed.Bound, "the turns of the remotes end, and none is asked for again")
	for _, turn := range h.Models.Turns() {
		require.True(h.T, turn.Cut.IsZero(), "a turn was cut: %s", turn.Body.Raw)
	}
}

// A good new codex is tried, and workers and remotes change to it between their turns. No turn of a client runs on one
// that exits, hangs, refuses a setting, answers no call of a tool or doubles its output: it is held back and named.
// Meanwhile no request fails, and no turn is cut.
func TestANewCodexIsTriedFirst(t *testing.T) {
	both := bed.BothSuites
	if nightly.Is() { // it measures
		both = bed.BothSuitesInTurn
	}
	both(t, func(t *testing.T, suite string) {
		b := newCopiesBed(t, suite, bed.RealWorker, "follow")
		b.crowd()
		b.takesAGoodOne()
		for i, bad := range []badCodex{
			{"exits", "it fails at "},
			{"hangs", "it fails at the handshake: it has not finished within "},
			{"refuses", "thread_unload_delay_secs"},
			{"no tools", "it fails at a turn with a tool: it has not finished within "},
			{"doubles", "it fails at a plain turn: the model answered"},
		}[:nightly.Or(5, 1)] {
			b.holdsBack(fmt.Sprintf("0.998.%d", i), bad)
		}
	})
}

func (b *copiesBed) takesAGoodOne() {
	t := b.T
	old := b.running(bed.WorkerUnit)
	conversation := b.respond("", "[[text the first answer]]")
	stop, held := b.load(), b.inTurn("good")
	b.install("0.171.900", "cp $good $program")
	await.True(t, func() bool {
		return strings.Contains(b.MustRun(t, "cat", "/var/lib/codex-copies/state.json"), `"in_use": "0.171.900-`)
	}, bed.Bound, "it passes")
	if len(b.workers) == 1 {
		assert.Equal(t, old, b.running(bed.WorkerUnit), "its turn runs")
		assert.Positive(t, stop())
	}
	held.finish()
	began := time.Now()
	for _, unit := range b.workers {
		b.awaitRunning(unit, "0.171.900")
	}
	for _, r := range b.remotes {
		b.awaitRunning(r.Unit, "0.171.900")
	}
	b.within(time.Minute, began, "good: in use after the last turn")
	if len(b.workers) > 1 {
		t.Logf("good: %d requests meanwhile", stop())
	}
	b.Until("ready again", bed.Ready)
	status, _, answer := b.Chat(false, "[[text after]]")
	assert.Equal(t, 200, status, answer)
	b.goOn(conversation)
	b.assertAtRest()
	assert.NotContains(t, b.MustRun(t, "codex-proxy", "status"), "held back")
}

// within logs a measured time, and by night, on a machine that does nothing else, asserts it.
func (b *copiesBed) within(bound time.Duration, began time.Time, what string) {
	b.T.Helper()
	took := time.Since(began)
	b.T.Logf("%s: %s", what, took)
	if nightly.Is() {
		assert.Less(b.T, took, bound, what)
	}
}

// respond has a response continue another one, and returns its ID.
func (b *copiesBed) respond(previous, prompt string) (id string) {
	b.T.Helper()
	body := map[string]any{"model": bed.Model, "input": prompt}
	if previous != "" {
		body["previous_response_id"] = previous
	}
	text, err := json.Marshal(body)
	require.NoError(b.T, err)
	res, answer := b.AskThrough(b.T, http.MethodPost, bed.ResponsesPath, string(text))
	require.Equal(b.T, http.StatusOK, res.StatusCode, answer)
	var response struct{ ID string }
	require.NoError(b.T, json.Unmarshal([]byte(answer), &response))
	return response.ID
}

// goOn has conversations from before the change go on: of the worker, and of each remote.
func (b *copiesBed) goOn(conversation string) {
	b.T.Helper()
	b.respond(conversation, "[[text of the worker]]")
	asked := bed.TurnsWith(b.Bed, "[[text of the worker]]")
	require.Len(b.T, asked, 1)
	bed.AssertGiven(b.T, asked[0], "the first answer", "[[text of the worker]]")
	for _, r := range b.remotes {
		word := "[[text of " + r.Name + "]]"
		b.MustRun(b.T, "codex-proxy", "remotes", "send", r.Name, word)
		await.True(b.T, func() bool { asked = bed.TurnsWith(b.Bed, word); return len(asked) > 0 }, bed.Bound, "the remote asks")
		bed.AssertGiven(b.T, asked[0], "[[gate good]]", " and done", word)
	}
}

// assertAtRest asserts that the trial has left nothing in memory and on the disk, and that there is a copy of the codex
// in use and of the one before.
func (b *copiesBed) assertAtRest() {
	b.T.Helper()
	await.True(b.T, func() bool { return bed.Trim(b.MustRun(b.T, "sh", "-c", atRest)) == "" }, bed.Bound, "nothing of the canary stays")
	copied := strings.Fields(b.MustRun(b.T, "find", "/var/lib/codex-copies", "-mindepth", "1", "-maxdepth", "1", "-type", "d"))
	assert.Len(b.T, copied, 2, "versions in use + 1: %q", copied)
}

// atRest prints what is there of the canary: units, files and groups of processes, which have its memory. What asks for
// it ends by itself, a moment after a request.
const atRest = `systemctl list-units --all --plain --no-legend 'codex-canary@*'
	find /run/codex-canary /run/private -mindepth 1 2>/dev/null
	find /tmp /var/tmp -maxdepth 1 -name '*codex-canary*'
	find /sys/fs/cgroup -name 'codex-canary*' -o -name codex-copies.service 2>/dev/null; true`

// badCodex is a fault of the fake codex, and what is said of it.
type badCodex struct{ fault, reason string }

func (b *copiesBed) holdsBack(version string, bad badCodex) {
	t := b.T
	stop, held := b.load(), b.inTurn(version)
	began := time.Now()
	if bad.fault == "exits" {
		b.install(version, "cp /bin/false $program")
	} else {
		b.installFake(version, "'"+bad.fault+"'")
		began = time.Now()
	}
	why := version + " is installed and held back: it fails at "
	await.True(t, func() bool { return strings.Contains(b.MustRun(t, "codex-proxy", "status"), why) }, bed.Bound, bad.fault)
	b.within(30*time.Second, began, bad.fault+": named")
	t.Logf("%d requests meanwhile", stop())
	held.finish()
	b.UntilMetric("codex_copies_held 1")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), bad.reason)
	assert.Contains(t, b.MustRun(t, "sh", "-c", "codex-proxy doctor; true"), why)
	for _, unit := range b.workers {
		assert.Contains(t, b.running(unit), "/0.171.900-")
		assert.Zero(t, strings.Count(b.UnitJournal(unit), version))
	}
	for _, r := range b.remotes {
		assert.Contains(t, b.running(r.Unit), "/0.171.900-")
	}
	b.assertAtRest()
}
