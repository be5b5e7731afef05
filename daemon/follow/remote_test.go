package follow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/units"
)

// newRemotesBed has a codex on probation, which the remote x runs and the remote y does not.
func newRemotesBed(t *testing.T) (b *bed, old, next string) {
	t.Helper()
	b = newBed(t)
	b.busy = true
	old = b.name("0.171.0")
	b.use(old)
	b.runs(old, units.Remote("y"))
	next = b.name("0.172.0")
	b.use(next)
	b.runs(next, units.Remote("x"))
	for _, name := range []string{"x", "y"} {
		b.remotes = append(b.remotes, probes.Remote{Name: name, Unit: units.Remote(name), ActiveState: "active", Ready: true,
			RestartsTotal: 7, Use: &probes.RemoteUse{At: time.Now(), Ended: 40, Failed: 30, Turns: 1}})
	}
	b.steps(2)
	return b, old, next
}

// answers has a remote report turns that have ended since.
func (b *bed) answers(n, ended, failed int) {
	use := *b.remotes[n].Use
	use.At, use.Ended, use.Failed, use.Fault = time.Now(), use.Ended+ended, use.Failed+failed, "no such table"
	b.remotes[n].Use = &use
	b.steps(1)
}

func (b *bed) inUse() string {
	b.t.Helper()
	state, err := b.Store.State()
	require.NoError(b.t, err)
	return state.InUse
}

// The turns of remotes count as well: from when this process knows how many there were before.
func TestTurnsOfRemotesLeadBack(t *testing.T) {
	b, old, next := newRemotesBed(t)
	b.answers(1, 20, 0)
	b.answers(0, 20, 2)
	assert.Equal(t, next, b.inUse())
	assert.Equal(t, Count{20, 2}, b.Save().Counts[next])
	assert.Equal(t, Count{20, 0}, b.Save().Counts[old])
	b.answers(0, 1, 1)
	assert.Equal(t, old, b.inUse())
	state, err := b.Store.State()
	require.NoError(t, err)
	held, _ := state.HeldBack(next)
	assert.Contains(t, held.Reason, "of its last 10 turns failed: no such table")
}

// One remote alone leads back until its next turn: if that fails on the codex before as well, the new one is in use
// again, and that remote does not lead back from it any more. Two remotes are proof.
func TestOneRemoteAlone(t *testing.T) {
	b, old, next := newRemotesBed(t)
	b.runs(next, units.Worker("w")) // or the copy goes, and root takes it once more
	b.answers(1, 20, 0)
	b.answers(0, 3, 3)
	require.Equal(t, old, b.inUse())
	b.runs(old, units.Remote("x"))
	b.answers(1, 1, 1)
	b.steps(2)
	require.Equal(t, old, b.inUse(), "another remote")
	b.answers(0, 1, 1)
	b.steps(2)
	require.Equal(t, next, b.inUse())
	state, err := b.Store.State()
	require.NoError(t, err)
	_, held := state.HeldBack(next)
	assert.False(t, held)
	b.runs(next, units.Remote("x"))
	b.steps(1)
	b.answers(0, 5, 5)
	assert.Equal(t, next, b.inUse(), "the same remote")

	b, old, next = newRemotesBed(t)
	b.runs(next, units.Remote("y"))
	b.steps(1)
	b.answers(0, 2, 2)
	b.answers(1, 1, 1)
	require.Equal(t, old, b.inUse())
	b.runs(old, units.Remote("x"), units.Remote("y"))
	b.answers(0, 1, 1)
	b.answers(1, 1, 1)
	b.steps(2)
	assert.Equal(t, old, b.inUse(), "two remotes")
}

// A turn that succeeds on the codex before shows that the new one was the reason.
func TestARemoteThatWorksOnTheCodexBefore(t *testing.T) {
	b, old, _ := newRemotesBed(t)
	b.answers(1, 20, 0)
	b.answers(0, 3, 3)
	require.Equal(t, old, b.inUse())
	b.runs(old, units.Remote("x"))
	b.answers(0, 1, 0)
	b.answers(0, 1, 1)
	b.steps(2)
	assert.Equal(t, old, b.inUse())
}

// A codex that ends in a turn of a remote has failed it. A remote that starts again without a turn has not, nor one that
// an operator stops or that has no memory left.
func TestACodexThatEndsInATurnOfARemote(t *testing.T) {
	for name, tc := range map[string]struct {
		turns    int
		restarts uint64
		result   string
		back     bool
	}{
		"in a turn": {1, 1, "signal", true}, "without a turn": {0, 1, "signal", false}, "stopped": {1, 0, "success", false},
		"out of memory": {1, 1, "oom-kill", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, old, _ := newRemotesBed(t)
			for range 3 {
				x := &b.remotes[0]
				x.Ready, x.Use = false, x.Use.AtRest()
				x.RestartsTotal += tc.restarts
				x.LastExit = &probes.Exit{Result: tc.result}
				b.steps(1)
				x.Ready, x.Use = true, &probes.RemoteUse{At: time.Now(), Turns: tc.turns}
				b.steps(1)
			}
			if tc.turns > 0 { // it had one at first, too
				assert.Equal(t, tc.back, b.inUse() == old)
			} else {
				assert.NotEqual(t, old, b.inUse())
			}
		})
	}
}

// A remote that was ready on the codex before and does not become ready on the new one leads back. If it does not on
// the one before either, the new one is in use again, and that remote does not lead back from it any more.
func TestARemoteThatIsNotReadyAfterItsChange(t *testing.T) {
	ends := &probes.Exit{Result: "exit-code", Status: "1"}
	for name, tc := range map[string]struct {
		reason   probes.RemoteReason
		exit     *probes.Exit
		restarts uint64 // after its change
		back     bool
	}{
		"ends": {probes.RemoteBackingOff, ends, 4, true}, "given up": {probes.RemoteStartLimitHit, ends, 4, true},
		"failed": {probes.RemoteFailed, ends, 4, true}, "once": {probes.RemoteBackingOff, ends, 2, false},
		"starting": {probes.RemoteStarting, ends, 4, false}, "no hands": {probes.RemoteBackingOff,
			&probes.Exit{Result: "exit-code", Status: "69"}, 4, false},
		"invalid": {probes.RemoteInvalid, ends, 4, false}, "stopped": {probes.RemoteAsleep, ends, 4, false},
		"no memory": {probes.RemoteBackingOff, &probes.Exit{Result: "oom-kill"}, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, old, next := newRemotesBed(t)
			b.runs(next, units.Worker("w")) // or the copy goes, and root takes it once more
			b.busy = false
			b.steps(int(remoteAgain/tickEvery) + 1)
			require.Equal(t, []string{"y"}, b.renewed)
			b.runs(next, units.Remote("y"))
			y := &b.remotes[1]
			y.ActiveState, y.Ready, y.Reason, y.LastExit = "activating", false, tc.reason, tc.exit
			y.StatusText, y.RestartsTotal = "Ended: exit status 1", y.RestartsTotal+tc.restarts
			b.steps(int(readyBound/tickEvery) / 2)
			require.Equal(t, next, b.inUse())
			b.steps(int(readyBound / tickEvery))
			require.Equal(t, tc.back, b.inUse() == old)
			if !tc.back && tc.reason != probes.RemoteStarting { // the time and the restarts count from here
				y.Reason, y.LastExit = probes.RemoteBackingOff, ends
				b.steps(2)
				require.Equal(t, next, b.inUse())
			}
			if !tc.back {
				return
			}
			state, err := b.Store.State()
			require.NoError(t, err)
			held, _ := state.HeldBack(next)
			assert.Equal(t, "remote y is not ready 40s after its change: its codex ends (Ended: exit status 1)", held.Reason)

			b.runs(old, units.Remote("x"), units.Remote("y"))
			y.RestartsTotal += inARow
			b.steps(int(readyBound/tickEvery) + 3)
			require.Equal(t, next, b.inUse(), "nor on the one before")
			b.runs(next, units.Remote("x"), units.Remote("y"))
			y.RestartsTotal += inARow
			b.steps(2*int(readyBound/tickEvery) + 3)
			assert.Equal(t, next, b.inUse())
		})
	}
}

// The counts from before this process, or from before a change of the remote, are none of it.
func TestCountsOfRemotesFromBefore(t *testing.T) {
	b, _, next := newRemotesBed(t)
	again := New(b.Settings)
	x := &b.remotes[0]
	step := func() { b.now = b.now.Add(tickEvery); again.step(t.Context(), b.now) }
	step()
	x.Use = &probes.RemoteUse{At: time.Now(), Ended: 43, Failed: 33}
	step()
	assert.Empty(t, again.Save().Counts)
	x.ActiveState = "" // as before systemd has reported it
	step()
	x.ActiveState, x.Ready = "activating", false
	step()
	x.ActiveState, x.Ready, x.Use = "active", true, &probes.RemoteUse{At: time.Now(), Ended: 2}
	step()
	assert.Equal(t, map[string]Count{next: {2, 0}}, again.Save().Counts)
}
