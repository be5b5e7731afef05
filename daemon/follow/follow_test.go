package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/copies"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers/upgrade"
)

// bed is a follower on a clock of the test, with the workers, the remotes and the root of the test.
type bed struct {
	*Follower
	t         *testing.T
	now       time.Time
	workers   []probes.Worker
	remotes   []probes.Remote
	drained   map[string]bool
	renewed   []string // workers and remotes, in their order
	wanted    []string
	installed Installed
	looks     int
	look      func() (upgrade.Outcome, error)
	busy      bool // remotes
	edited    time.Time
	deaf      string // a worker whose shim does not read
}

func newBed(t *testing.T, names ...string) *bed {
	dir := t.TempDir()
	b := &bed{t: t, now: time.Now(), drained: map[string]bool{}}
	store := copies.At(filepath.Join(dir, "copies"), filepath.Join(dir, "runs"))
	require.NoError(t, os.MkdirAll(store.Dir, 0o755))
	require.NoError(t, os.MkdirAll(store.Runs, 0o755))
	for _, name := range names {
		b.workers = append(b.workers, probes.Worker{Name: name, Unit: units.Worker(name), Ready: true, Reason: probes.Ready,
			ActiveState: "active", InvocationID: name + "1"})
	}
	b.Follower = New(Settings{
		Store: store, Follow: true, Logger: slog.New(slog.DiscardHandler), Pool: b, Root: b,
		Installed:   func() (Installed, error) { return b.installed, nil },
		Remotes:     func() []probes.Remote { return b.remotes },
		RenewRemote: func(_ context.Context, name string) (bool, error) { return b.renewRemote(name) },
		Predecessor: func() bool { return false },
		Edited:      func(string) time.Time { return b.edited },
	})
	return b
}

func (b *bed) Snapshot() probes.Snapshot { return probes.Snapshot{Workers: b.workers} }

func (b *bed) worker(name string) *probes.Worker {
	for i := range b.workers {
		if b.workers[i].Name == name {
			return &b.workers[i]
		}
	}
	require.Fail(b.t, "no worker "+name)
	return nil
}

func (b *bed) DrainForRenewal(name string, drain bool) error {
	w := b.worker(name)
	b.drained[name] = drain
	if w.Ready && drain {
		w.Ready, w.Reason = false, probes.Draining
	} else if w.Reason == probes.Draining && !drain {
		w.Ready, w.Reason = true, probes.Ready
	}
	return nil
}

func (b *bed) Renew(name, _ string) error {
	w := b.worker(name)
	require.Zero(b.t, w.Inflight, "a worker with turns is not ended")
	if name == b.deaf {
		return errors.New("no shim that reads")
	}
	b.renewed = append(b.renewed, name)
	w.Ready, w.Reason, w.ActiveState = false, probes.BackingOff, "activating"
	return nil
}

func (b *bed) Want(name string) error { b.wanted = append(b.wanted, name); return nil }

func (b *bed) renewRemote(name string) (bool, error) {
	if !b.busy {
		b.renewed = append(b.renewed, name)
	}
	return !b.busy, nil
}

func (b *bed) Look(context.Context) (upgrade.Outcome, error) { b.looks++; return b.look() }

func (b *bed) Back(ctx context.Context, back upgrade.Back) error {
	if back.Undo {
		return b.Store.Use(ctx, back.Copy)
	}
	return b.Store.Hold(ctx, back.Copy, back.Reason)
}

// name is the name of a copy with that letter in its hash. It is whole.
func (b *bed) name(version string) string {
	b.t.Helper()
	root := filepath.Join(b.t.TempDir(), "codex")
	require.NoError(b.t, os.Chmod(filepath.Dir(filepath.Dir(root)), 0o755)) //nolint:gosec // all users read programs
	program := filepath.Join(root, "bin/codex")
	require.NoError(b.t, os.MkdirAll(filepath.Dir(program), 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(root, "codex-package.json"), fmt.Appendf(nil, `{"version":%q}`, version), 0o644)) //nolint:gosec // a package
	require.NoError(b.t, os.WriteFile(program, []byte(version), 0o755))                                                               //nolint:gosec // a program
	c, err := b.Store.Take(b.t.Context(), program)
	require.NoError(b.t, err)
	return c.Name
}

func (b *bed) use(name string) { b.t.Helper(); require.NoError(b.t, b.Store.Use(b.t.Context(), name)) }

// runs has the present runs of the units on the copy.
func (b *bed) runs(name string, unitNames ...string) {
	b.t.Helper()
	for _, unit := range unitNames {
		require.NoError(b.t, b.Store.Assign(b.t.Context(), unit, name))
	}
}

// started has a worker that was ended ready again, on the copy in use.
func (b *bed) started(name string) {
	b.t.Helper()
	state, err := b.Store.State()
	require.NoError(b.t, err)
	b.runs(state.InUse, units.Worker(name))
	w := b.worker(name)
	w.InvocationID += "1"
	w.Ready, w.Reason, w.ActiveState = true, probes.Ready, "active"
}

func (b *bed) steps(n int) {
	for range n {
		b.now = b.now.Add(tickEvery)
		b.step(b.t.Context(), b.now)
	}
}

// Workers change one after the other, each without turns, while another one takes them.
func TestWorkersChangeOneAfterTheOther(t *testing.T) {
	b := newBed(t, "a", "b")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"), units.Worker("b"))
	b.steps(3)
	assert.Empty(t, b.renewed, "both run what is in use")

	b.worker("a").Inflight, b.worker("b").Inflight = 2, 1
	b.use(b.name("0.172.0"))
	b.steps(3)
	assert.True(t, b.drained["b"], "it has fewer turns")
	assert.False(t, b.drained["a"])
	assert.Empty(t, b.renewed)
	b.worker("b").Inflight = 0
	b.steps(3)
	assert.Equal(t, []string{"b"}, b.renewed)
	assert.False(t, b.drained["a"], "b is not ready yet")
	b.started("b")
	b.steps(2)
	assert.True(t, b.drained["a"])
	b.worker("a").Inflight = 0
	b.steps(1)
	assert.Equal(t, []string{"b", "a"}, b.renewed)
	b.started("a")
	b.steps(3)
	assert.Equal(t, []string{"b", "a"}, b.renewed)
}

// A worker that is alone changes when it has no turn; if there is a standby, that starts first and takes the turns.
func TestAWorkerAloneChangesBetweenTurns(t *testing.T) {
	b := newBed(t, "a")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"))
	b.worker("a").Inflight = 1
	b.use(b.name("0.172.0"))
	b.steps(5)
	assert.False(t, b.drained["a"], "its next turns would wait for this one")
	b.worker("a").Inflight = 0
	b.steps(1)
	assert.Equal(t, []string{"a"}, b.renewed)
	assert.Empty(t, b.wanted)

	b = newBed(t, "a", "spare")
	old = b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"))
	b.worker("a").Inflight = 1
	*b.worker("spare") = probes.Worker{Name: "spare", Unit: units.Worker("spare"), Reason: probes.Standby}
	b.use(b.name("0.172.0"))
	b.steps(5)
	assert.Equal(t, []string{"spare"}, b.wanted)
	assert.False(t, b.drained["a"])
	b.started("spare")
	b.steps(1)
	assert.True(t, b.drained["a"])
}

// A worker that does not become ready on the new codex leads back to the one before.
func TestAWorkerThatDoesNotStartLeadsBack(t *testing.T) {
	b := newBed(t, "a", "b")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"), units.Worker("b"))
	next := b.name("0.172.0")
	b.use(next)
	b.steps(2)
	require.Equal(t, []string{"a"}, b.renewed)
	b.runs(next, units.Worker("a"))
	b.worker("a").InvocationID = "another"
	b.worker("a").StatusText = "codex does not take a setting"
	b.now = b.now.Add(readyBound)
	b.steps(1)
	state, err := b.Store.State()
	require.NoError(t, err)
	assert.Equal(t, old, state.InUse)
	held, is := state.HeldBack(next)
	assert.True(t, is)
	assert.Contains(t, held.Reason, "worker a is not ready 40s after its change: backing_off (codex does not take a setting)")
	b.steps(3)
	assert.False(t, b.drained["b"], "it runs the old one")
}

// Remotes change when they have no turn, after the workers.
func TestRemotesChange(t *testing.T) {
	b := newBed(t, "a")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"), units.Remote("x"), units.Remote("y"))
	for _, name := range []string{"x", "y"} {
		b.remotes = append(b.remotes, probes.Remote{Name: name, Unit: units.Remote(name), Ready: true})
	}
	b.use(b.name("0.172.0"))
	b.steps(1)
	b.busy = true
	b.started("a")
	b.steps(10)
	assert.Equal(t, []string{"a"}, b.renewed)
	b.busy = false
	b.steps(20)
	assert.Equal(t, []string{"a", "x", "y"}, b.renewed)
}

// An installed codex that is another one is looked at once, and again after a failure.
func TestLook(t *testing.T) {
	b := newBed(t, "a")
	old, next := b.name("0.171.0"), b.name("0.172.0")
	b.use(old)
	b.look = func() (upgrade.Outcome, error) { return upgrade.Outcome{}, errors.New("it changes just now") }
	b.installed = Installed{File: "1", Copy: old}
	looked := func(n int) {
		t.Helper()
		b.now = b.now.Add(lookEvery)
		b.steps(1)
		b.looking <- struct{}{} // the look has ended
		<-b.looking
		assert.Equal(t, n, b.looks)
	}
	looked(0)
	b.installed = Installed{File: "2"}
	looked(0) // it may still be written
	looked(1)
	looked(2)
	looked(2) // the disk may be full: the next look waits longer
	b.look = func() (upgrade.Outcome, error) { return upgrade.Outcome{Copy: next, Tried: true}, nil }
	looked(3)
	looked(3)
	b.use(next)
	require.NoError(t, b.Store.Pin(t.Context(), old))
	require.NoError(t, b.Store.Follow(t.Context()))
	b.use(b.name("0.170.0")) // and an operator takes back another one that he had put into use
	b.installed = Installed{File: "2", Copy: next}
	looked(4)
	b.installed = Installed{File: "3", Copy: next, Held: true}
	looked(4)
	assert.True(t, b.held.Load())
	require.NoError(t, b.Store.Pin(t.Context(), old))
	b.installed = Installed{File: "4"}
	looked(4)
}

// A worker that an operator stops or drains during its change is no fault of the new codex. Nor is one whose file has been
// edited since it was ready, if another worker is ready on that codex.
func TestAWorkerThatIsKeptFromTurnsLeadsNotBack(t *testing.T) {
	for name, keep := range map[string]func(b *bed, w *probes.Worker){
		"stopped":    func(_ *bed, w *probes.Worker) { w.ActiveState = "inactive" },
		"drained":    func(_ *bed, w *probes.Worker) { w.Drained = true },
		"dependency": func(_ *bed, w *probes.Worker) { w.Unmet = []string{"vllm"} },
		"edited": func(b *bed, w *probes.Worker) {
			w.LastReadyAt = new(time.Time)
			b.runs(b.name("0.172.0"), units.Worker("b"))
		},
		"edited, and no other one is ready": func(_ *bed, w *probes.Worker) { w.LastReadyAt = new(time.Time) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "a", "b")
			old := b.name("0.171.0")
			b.use(old)
			b.runs(old, units.Worker("a"))
			next := b.name("0.172.0")
			b.use(next)
			b.steps(2)
			b.runs(next, units.Worker("a"))
			b.worker("a").InvocationID = "another"
			keep(b, b.worker("a"))
			b.edited = time.Now()
			b.now = b.now.Add(readyBound)
			b.steps(1)
			state, err := b.Store.State()
			require.NoError(t, err)
			assert.Equal(t, name == "edited, and no other one is ready", state.InUse == old)
		})
	}
}

// A unit with a program of its own does not change, and the one version of the settings has no way back.
func TestWhatDoesNotChange(t *testing.T) {
	b := newBed(t, "a", "own")
	b.Fixed = true
	b.use(b.name("0.171.0"))
	next := b.name("0.172.0")
	b.use(next)
	b.runs(next, units.Worker("a"))
	require.NoError(t, os.Symlink(b.Store.Dir+"/./"+next, filepath.Join(b.Store.Runs, units.Worker("own"))))
	b.use(b.name("0.173.0"))
	b.settled[units.Worker("a")] = "settled"
	b.worker("a").Ready = false
	b.steps(5)
	assert.Empty(t, b.renewed)
	assert.False(t, b.OnProbation("a"))
	state, err := b.Store.State()
	require.NoError(t, err)
	b.runs(state.InUse, units.Worker("a"))
	for range 3 {
		b.Ended("a", 1, "the worker exited", nil)
	}
	b.steps(2)
	after, err := b.Store.State()
	require.NoError(t, err)
	assert.Equal(t, state.InUse, after.InUse)
}

// A worker that takes no order goes on as it is, and the others change.
func TestADeafWorkerHoldsUpNothing(t *testing.T) {
	b := newBed(t, "a", "b")
	old := b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Worker("a"), units.Worker("b"))
	b.deaf = "a"
	b.use(b.name("0.172.0"))
	b.steps(3)
	assert.Empty(t, b.renewed)
	b.now = b.now.Add(endBound)
	b.steps(2)
	assert.False(t, b.drained["a"])
	assert.Equal(t, []string{"b"}, b.renewed)
}
