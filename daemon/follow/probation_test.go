package follow

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/copies"
	"codex-proxy/units"
)

// A copy fails by three faults in a row or five of ten turns, if it has at least twice the share of the copy before.
func TestProbation(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		before, turns string // x: a fault
		after         time.Duration
		fails         int // the number of turns after which it has failed; 0: never
	}{
		"good":                       {turns: strings.Repeat(".", 50)},
		"breaks after 20 good turns": {before: "....", turns: strings.Repeat(".", 20) + "xxxxx", fails: 23},
		"fails from the start":       {turns: "xxx", fails: 3},
		"some faults":                {turns: "x..x..x..x..x..x..x.."},
		"every other one":            {turns: "x.x.x.x.x.x", fails: 9},
		"as bad as before":           {before: "x.x.x.x.", turns: "x.x.x.x.x.x.x"},
		"once, long after":           {turns: "xxx", after: time.Hour},
		"a bit better before":        {before: "x.........", turns: "..xxx", fails: 5},
	} {
		t.Run(name, func(t *testing.T) {
			runs := map[string]string{"new": "0.172.0-2", "old": "0.171.0-1"}
			p := newProbation(func(unit string) (string, bool) { return runs[unit], runs[unit] != "" })
			for _, x := range tc.before {
				p.ended("old", turn{fault: strings.Trim(string(x), ".")}, nil, now)
			}
			p.begin(copies.State{InUse: "0.172.0-2", Before: "0.171.0-1", Changed: now})
			failed := 0
			for i, x := range tc.turns {
				if p.ended("new", turn{fault: strings.Trim(string(x), ".")}, nil, now.Add(tc.after)) != "" {
					require.Zero(t, failed, "it fails once")
					failed = i + 1
				}
				assert.Empty(t, p.ended("old", turn{fault: "x"}, nil, now.Add(-time.Minute)), "a turn of the copy before")
				p.counts["0.171.0-1"] = &Count{len(tc.before), strings.Count(tc.before, "x")}
			}
			assert.Equal(t, tc.fails, failed)
			bad, reason := p.verdict()
			assert.Equal(t, failed > 0, bad != "" && reason != "")
		})
	}
}

// There is no way back from the first codex of a machine, and from a unit that runs the installed one.
func TestNoProbation(t *testing.T) {
	p := newProbation(func(unit string) (string, bool) { return "0.172.0-2", unit == "new" })
	p.begin(copies.State{InUse: "0.172.0-2", Changed: time.Now()})
	for range 10 {
		assert.Empty(t, p.ended("new", turn{fault: "x"}, nil, time.Now()))
		assert.Empty(t, p.ended("in place", turn{fault: "x"}, nil, time.Now()))
	}
}

// Once turns fail, no worker takes new ones on that copy, and all change back, those without turns at once.
func TestTurnsThatFailLeadBack(t *testing.T) {
	b := newBed(t, "a", "b")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("b"))
	next := b.name("0.172.0")
	b.use(next)
	b.runs(next, units.Worker("a"))
	b.settled[units.Worker("b")] = next // it is not ready to change
	b.steps(1)
	assert.True(t, b.OnProbation("a"))
	assert.False(t, b.OnProbation("b"))
	b.worker("a").Inflight = 1
	b.change = &change{name: "a", unit: units.Worker("a"), to: next, invocation: "before", ordered: b.now} // just ready again
	for range 3 {
		b.Ended("a", 1, "the worker exited", nil)
	}
	assert.True(t, b.drained["a"], "at once")
	assert.False(t, b.drained["b"])
	b.steps(1)
	assert.True(t, b.drained["a"], "until it has changed back")
	b.steps(1)
	state, err := b.Store.State()
	require.NoError(t, err)
	assert.Equal(t, old, state.InUse)
	held, _ := state.HeldBack(next)
	assert.Equal(t, "3 of its last 3 turns failed: the worker exited", held.Reason)
	assert.Empty(t, b.renewed, "its turn runs")
	b.worker("a").Inflight = 0
	b.steps(2)
	assert.Equal(t, []string{"a"}, b.renewed)
	b.started("a")
	b.steps(2)
	assert.False(t, b.OnProbation("a"))
}

// The turns that are lost in one crash of codex are one fault.
func TestACrashIsOneFault(t *testing.T) {
	p := newProbation(func(string) (string, bool) { return "0.172.0-2", true })
	p.begin(copies.State{InUse: "0.172.0-2", Before: "0.171.0-1", Changed: time.Now()})
	crashes := func(crash, turns int) (bad string) {
		for range turns {
			bad += p.ended("a", turn{fault: "the worker exited"}, crash, time.Now())
		}
		return bad
	}
	assert.Empty(t, crashes(1, 8))
	assert.Equal(t, &Count{1, 1}, p.counts["0.172.0-2"])
	assert.Empty(t, crashes(2, 8))
	assert.Equal(t, "0.172.0-2", crashes(3, 8), "three in a row")
}

// A successor of the process judges by the turns that its predecessor has counted.
func TestAReloadKeepsTheTurnsBefore(t *testing.T) {
	const before, now = "0.171.0-1", "0.172.0-2"
	state := copies.State{InUse: now, Before: before, Changed: time.Now()}
	runs := map[string]string{"old": before, "new": now}
	of := func(unit string) (string, bool) { return runs[unit], true }
	old := newProbation(of)
	old.begin(state)
	for range 4 {
		old.ended("old", turn{fault: "x"}, nil, time.Now())
		old.ended("old", turn{fault: ""}, nil, time.Now())
	}
	next := newProbation(of)
	next.ended("old", turn{fault: "x"}, nil, time.Now()) // it serves already
	next.restore(old.save())
	next.begin(state)
	assert.Equal(t, &Count{9, 5}, next.counts[before])
	for range 3 {
		assert.Empty(t, next.ended("new", turn{fault: "x"}, nil, time.Now()), "the one before was as bad")
	}
}

// The last turns on the codex in use count over a reload and a restart, until another one is in use.
func TestTheLastTurnsGoOn(t *testing.T) {
	state := copies.State{InUse: "0.172.0-2", Before: "0.171.0-1", Changed: time.Now()}
	of := func(string) (string, bool) { return "0.172.0-2", true }
	old := newProbation(of)
	old.begin(state)
	for i := range int64(2) {
		old.ended("a", turn{i, "x"}, nil, time.Now())
	}
	for name, tc := range map[string]struct {
		state copies.State
		fails bool
	}{
		"the same":   {state, true},
		"in between": {copies.State{InUse: "0.172.0-2", Before: "0.170.0-0", Changed: state.Changed.Add(time.Second)}, false},
	} {
		next := newProbation(of)
		next.restore(old.save())
		assert.Equal(t, old.save(), next.save(), "it has not begun yet")
		next.begin(tc.state)
		assert.Equal(t, tc.fails, next.ended("a", turn{2, "x"}, nil, time.Now()) != "", name)
	}
}

// A restart of the service keeps the turns that a new codex is judged by, in a file that its user alone reads.
func TestARestartKeepsTheTurnsBefore(t *testing.T) {
	b := newBed(t, "a", "b")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"), units.Worker("b"))
	b.steps(1)
	for i := range int64(4) { // as the model endpoint has it, say
		b.Ended("a", i, "", nil)
		b.Ended("a", i, "no such table", nil)
	}
	dir, serves := t.TempDir(), false
	left := NewKeeper(b.Follower, dir, func() bool { return serves })
	left.write()
	assert.NoFileExists(t, filepath.Join(dir, fileName), "another process has the file")
	serves = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, left.Run(ctx))
	info, err := os.Stat(filepath.Join(dir, fileName))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	next := b.name("0.172.0")
	b.use(next)
	b.runs(next, units.Worker("a"))
	restarted := func(from string) (leadsBack bool) {
		f := New(b.Settings)
		NewKeeper(f, from, func() bool { return true }).Load()
		f.step(t.Context(), b.now)
		for i := range int64(3) {
			f.Ended("a", 10+i, "no such table", nil)
		}
		bad, _ := f.probation.verdict()
		return bad != ""
	}
	assert.False(t, restarted(dir), "the one before was as bad")
	assert.True(t, restarted(""), "nothing is known of the one before")
}

// What is no file of turns is reported and written anew, and an unwritable one is reported once.
func TestAFileThatIsNone(t *testing.T) {
	for _, text := range []string{"{", `[1]`, `{"counts":{"0.171.0-1":{"turns":"many"}}}`, `{"counts":{"0.171.0-1":{"turns":-1,"faults":-5}}}`} {
		b, dir, log := newBed(t), t.TempDir(), &bytes.Buffer{}
		b.Logger = slog.New(slog.NewTextHandler(log, nil))
		file := filepath.Join(dir, fileName)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		k := NewKeeper(b.Follower, dir, func() bool { return true })
		k.Load()
		assert.Empty(t, b.Save().Counts, text)
		assert.Equal(t, !strings.Contains(text, "-5"), strings.Contains(log.String(), "the turns on each codex are forgotten"), text)
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Mkdir(file, 0o700))
		log.Reset()
		for range 2 {
			b.probation.countOf("0.171.0-1").Turns++
			k.write()
		}
		assert.Equal(t, 1, strings.Count(log.String(), "cannot write the turns on each codex"), text)
	}
}

// A request that alone has led back from a codex, and fails on the one before as well, was no fault of codex: that is in
// use again, and fails by such a request no more.
func TestARequestThatFailsAnywhereIsNoFault(t *testing.T) {
	b := newBed(t, "a", "b")
	old := b.name("0.171.0")
	b.use(old)
	next := b.name("0.172.0")
	b.use(next)
	b.runs(next, units.Worker("a"))
	b.runs(old, units.Worker("b"))
	b.steps(1)
	inUse := func(name, why string) {
		t.Helper()
		b.steps(3)
		state, err := b.Store.State()
		require.NoError(t, err)
		assert.Equal(t, name, state.InUse, why)
	}
	refused := func(worker string, request int64, times int) {
		for range times {
			b.Ended(worker, request, "your prompt was flagged", nil)
		}
	}
	for range 20 {
		b.Ended("b", 9, "", nil)
	}
	refused("a", 1, 3)
	inUse(old, "codex may be the reason")
	refused("b", 2, 1)
	inUse(old, "another request")
	refused("b", 1, 1)
	inUse(next, "it is not")
	refused("a", 3, 6)
	inUse(next, "one request more")
	refused("a", 4, 1)
	refused("a", 5, 1)
	inUse(old, "three requests")
	refused("b", 5, 1)
	inUse(old, "of several")
}
