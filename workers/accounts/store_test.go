package accounts_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "codex-proxy/workers/accounts"
)

// states are those of all accounts, in order.
func states(b *Store) []State {
	var states []State
	for _, v := range b.Views(noon) {
		states = append(states, v.State)
	}
	return states
}

func inUse(b *Store) string {
	for _, v := range b.Views(noon) {
		if v.InUse {
			return v.Name
		}
	}
	return ""
}

func readAt(used float64, at time.Time) Quota {
	return with(quota(used), func(q *Quota) { q.At = at })
}

func TestBookEndsExhaustionByAReading(t *testing.T) {
	changes := 0
	b := NewStore(policy, []string{"a"}, func() { changes++ })
	step := func(want State, why string, do func()) {
		t.Helper()
		before := states(b)[0]
		was := changes
		do()
		assert.Equal(t, []State{want}, states(b), why)
		if before != want {
			assert.Equal(t, was+1, changes, why)
		}
	}
	s := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	assert.Equal(t, []State{Unknown}, states(b))
	step(Available, "read", func() { b.Read("a", "", readAt(0.2, s(0))) })
	step(Exhausted, "refused", func() { b.Refuse("a", time.Time{}, s(10)) })
	step(Exhausted, "a reading that began before", func() { b.Read("a", "", readAt(0.2, s(9))) })
	step(Exhausted, "an update of a turn", func() { b.Update("a", quota(0.3).Windows, s(11)) })
	step(Exhausted, "a reading without quota", func() { b.Read("a", "", readAt(1, s(12))) })
	step(Exhausted, "an update is no reading", func() { b.Update("a", quota(0.3).Windows, s(13)) })
	step(Available, "a reading with quota", func() { b.Read("a", "", readAt(0.3, s(14))) })
	step(Low, "an update", func() { b.Update("a", quota(0.96).Windows, s(15)) })
	step(Exhausted, "an update", func() { b.Update("a", quota(1).Windows, s(16)) })
	step(Exhausted, "a reading from before", func() { b.Read("a", "", readAt(0.3, s(15))) })
	step(Available, "a reading", func() { b.Read("a", "", readAt(0.3, s(17))) })
	step(LoginInvalid, "", func() { b.Invalidate("a", s(20)) })
	step(LoginInvalid, "a reading from before", func() { b.Read("a", "", readAt(0.3, s(19))) })
	step(Available, "a reading", func() { b.Read("a", "", readAt(0.3, s(21))) })
	step(Available, "another", func() { b.Refuse("nobody", time.Time{}, s(30)) })
}

func TestBookCreditsThatWereRefused(t *testing.T) {
	b := NewStore(policy, []string{"a"}, func() {})
	read := func(n int, balance string) State {
		q := readAt(1, noon.Add(time.Duration(n)*time.Second))
		q.Credits = &Credits{Has: true, Balance: balance}
		b.Read("a", "", q)
		return states(b)[0]
	}
	assert.Equal(t, Low, read(0, "5"))
	b.Refuse("a", time.Time{}, noon.Add(time.Second))
	assert.Equal(t, Exhausted, read(2, "5"), "those credits were refused")
	assert.Equal(t, Exhausted, read(3, "0"))
	assert.Equal(t, Low, read(4, "7"), "new credits")
}

func TestBookUpdateIsSparse(t *testing.T) {
	b := NewStore(policy, []string{"a"}, func() {})
	b.Read("a", "", with(quota(0.1, 0.2), func(q *Quota) { q.Plan = "pro" }))
	b.Update("a", []Window{NewWindow(299, 0.4, time.Time{})}, noon.Add(time.Second))
	v, ok := b.View("a", noon)
	require.True(t, ok)
	want := quota(0.4, 0.2)
	want.Plan, want.Source, want.At = "pro", Update, noon.Add(time.Second)
	assert.Equal(t, want, v.Quota)
	assert.InDelta(t, 0.6, v.Left, 1e-9)
}

func TestBookWindowsByLength(t *testing.T) {
	b := NewStore(policy, []string{"a"}, func() {})
	day := NewWindow(1440, 0.3, noon)
	q := quota(0.1, 0.2)
	q.Windows = []Window{q.Windows[1], day, q.Windows[0]}
	b.Read("a", "", q)
	v, _ := b.View("a", noon)
	var names []string
	for _, w := range v.Quota.Windows {
		names = append(names, w.Name)
	}
	assert.Equal(t, []string{"5h", "1d", "7d"}, names)
}

func TestBookSharesAQuota(t *testing.T) {
	b := NewStore(policy, []string{"a", "b", "c"}, func() {})
	b.Read("a", "x", readAt(0.2, noon))
	b.Read("b", "x", readAt(0.3, noon.Add(1)))
	b.Read("c", "", readAt(0.4, noon))
	b.Refuse("a", time.Time{}, noon.Add(2))
	assert.Equal(t, []State{Exhausted, Exhausted, Available}, states(b))
	v, _ := b.View("b", noon)
	assert.Equal(t, []string{"a"}, v.Shared)
	b.Invalidate("a", noon.Add(3))
	assert.Equal(t, []State{LoginInvalid, Exhausted, Available}, states(b), "each has its own login")
	b.Read("b", "y", readAt(0.1, noon.Add(4)))
	assert.Equal(t, []State{LoginInvalid, Available, Available}, states(b), "another login, another quota")
	b.Read("a", "", readAt(0.1, noon.Add(1)))
	v, _ = b.View("a", noon)
	assert.Equal(t, noon.Add(2), v.Quota.RefusedAt, "a server that names no account ends no refusal")
}

func TestBookInUse(t *testing.T) {
	ordered := Policy{Rotation: Ordered, Order: []string{"b", "a"}, RotateAt: 0.05}
	b := NewStore(ordered, []string{"a", "b", "c"}, func() {})
	n := 0
	read := func(name string, used float64) {
		n++
		b.Read(name, "", readAt(used, noon.Add(time.Duration(n)*time.Second)))
	}
	assert.Equal(t, "b", inUse(b))
	read("a", 0)
	assert.Equal(t, "b", inUse(b), "what is unknown is no reason to leave")
	read("b", 0.96)
	assert.Equal(t, "a", inUse(b))
	read("b", 0)
	assert.Equal(t, "a", inUse(b), "no jump back")
	require.NoError(t, b.Pause("a", true))
	assert.Equal(t, "b", inUse(b), "from the end of the order to its begin; c is unknown")
	require.ErrorIs(t, b.Switch("a"), ErrNotAvailable)
	require.NoError(t, b.Pause("a", false))
	require.NoError(t, b.Switch("a"))
	assert.Equal(t, "a", inUse(b))
	require.ErrorIs(t, b.Switch("x"), ErrUnknown)
	read("b", 0.97)
	read("a", 0.97)
	assert.Equal(t, "c", inUse(b), "unknown before low")
	read("c", 1)
	assert.Equal(t, "b", inUse(b), "low before exhausted")
	read("b", 1)
	read("a", 1)
	assert.Equal(t, "a", inUse(b), "nothing serves: it stays")
	read("c", 0.5)
	assert.Equal(t, "c", inUse(b))
}

func TestBookSavedAndRestored(t *testing.T) {
	policy := Policy{Rotation: Even, RotateAt: 0.05}
	b := NewStore(policy, []string{"a", "b", "gone"}, func() {})
	b.Read("a", "x", readAt(0.2, noon))
	b.Read("b", "x", readAt(0.3, noon.Add(1)))
	b.Identify("a", Login{Type: "chatgpt", Email: "a@example.com", At: noon})
	b.Refuse("b", noon.Add(time.Hour), noon.Add(2))
	b.Invalidate("b", noon.Add(3))
	require.NoError(t, b.Pause("a", true))
	text, err := json.Marshal(b.Save())
	require.NoError(t, err)
	var saved Saved
	require.NoError(t, json.Unmarshal(text, &saved))

	same := NewStore(policy, []string{"a", "b"}, func() {})
	same.Restore(saved, noon.Add(time.Minute))
	for _, name := range []string{"a", "b"} {
		want, _ := b.View(name, noon)
		got, _ := same.View(name, noon)
		assert.Equal(t, want, got)
	}
	later := NewStore(policy, []string{"a", "b"}, func() {})
	later.Read("a", "x", readAt(0.7, noon.Add(5)))
	later.Restore(saved, noon.Add(time.Minute))
	v, _ := later.View("a", noon)
	assert.InDelta(t, 0.3, v.Left, 1e-9, "the newer reading stays, which has ended the refusal")
	assert.Equal(t, Available, v.State)
	v, _ = later.View("b", noon)
	assert.Equal(t, LoginInvalid, v.State)

	other := NewStore(Policy{RotateAt: 0.9}, []string{"a"}, func() {})
	other.Read("a", "y", readAt(0.2, noon.Add(-1)))
	other.Restore(saved, noon.Add(time.Minute))
	v, _ = other.View("a", noon)
	assert.Equal(t, Low, v.State, "the policy in force decides")
	assert.Zero(t, v.Quota.RefusedAt, "the login is another account now")
}

// A file may have been written while the clock was ahead.
func TestBookRestoredFromTheFuture(t *testing.T) {
	future := noon.Add(100 * time.Hour)
	before := NewStore(Policy{RotateAt: 0.05}, []string{"a", "b"}, func() {})
	before.Read("a", "x", readAt(1, future))
	before.Refuse("a", future.Add(time.Hour), future.Add(time.Minute))
	before.Read("b", "y", readAt(0.2, future))
	before.Invalidate("b", future.Add(time.Minute))

	b := NewStore(Policy{RotateAt: 0.05}, []string{"a", "b"}, func() {})
	b.Restore(before.Save(), noon)
	states := func(now time.Time) (all []State) {
		for _, v := range b.Views(now) {
			all = append(all, v.State)
		}
		return all
	}
	assert.Equal(t, []State{Exhausted, LoginInvalid}, states(noon))
	for _, name := range []string{"a", "b"} {
		assert.LessOrEqual(t, b.NextRead(name, noon, noon), noon.Add(IdleInterval), name)
	}
	read := noon.Add(time.Minute)
	b.Read("a", "x", readAt(0.1, read))
	b.Read("b", "y", readAt(0.1, read))
	assert.Equal(t, []State{Available, Available}, states(read))
}

func TestBookSwitchThatFailsChangesNothing(t *testing.T) {
	b := NewStore(Policy{Rotation: Ordered, RotateAt: 0.05}, []string{"a", "b", "c"}, func() {})
	for _, name := range []string{"a", "c"} {
		b.Read(name, name, readAt(0.2, noon))
	}
	b.Read("b", "b", readAt(1, noon))
	require.ErrorContains(t, b.Switch("b"), `"a" stays in use`)
	assert.Equal(t, "a", inUse(b))
	assert.Zero(t, b.Switches())
}
