package accounts

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// ago is a time before noon.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

func planPolicy(r Rotation, warm int) Policy {
	return Policy{Rotation: r, Warm: warm, RotateAt: 0.05, IdleStop: 10 * time.Minute,
		PrewarmAt: map[string]float64{"5h": 0.10, "7d": 0.05}}
}

// seen is an account with that share left in the window of five hours, read just now.
func seen(name string, state State, left float64) View {
	return View{Name: name, State: state, Left: left, Login: Login{Type: "chatgpt", At: noon},
		Quota: Quota{At: noon, Windows: []Window{{Name: "5h", UsedRatio: 1 - left}}}}
}

func asInUse(v View) View {
	v.InUse = true
	return v
}

func asPaused(v View) View {
	v.Paused = true
	return v
}

func asShared(id string, v View) View {
	v.QuotaID = id
	return v
}

// resetAt has the window of five hours end then; it was read an hour before noon.
func asReset(at time.Time, v View) View {
	v.Quota.Windows[0].ResetsAt, v.Quota.At = at, ago(time.Hour)
	return v
}

func workerAt(name string, p Phase) Unit {
	u := Unit{Name: name, Phase: p}
	if p == Warm {
		u.ReadyAt = ago(time.Hour)
	}
	return u
}

// used is a worker whose last turn ended that long ago.
func usedAgo(u Unit, d time.Duration) Unit {
	u.UsedAt = ago(d)
	return u
}

func TestPlan(t *testing.T) {
	a, b, c := seen("a", Available, 0.9), seen("b", Available, 0.8), seen("c", Available, 0.7)
	for _, tc := range []struct {
		name   string
		policy Policy
		views  []View
		units  []Unit
		need   []string
		stop   []string
		next   string
	}{
		{name: "the account in use alone", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b, c},
			units: []Unit{workerAt("a", Cold), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"a"}, next: "b"},
		{name: "warm = 2 keeps the successor, too", policy: planPolicy(Ordered, 2), views: []View{a, asInUse(b), c},
			units: []Unit{workerAt("a", Cold), workerAt("b", Warm), workerAt("c", Cold)}, need: []string{"b", "c"}, next: "c"},
		{name: "above the mark", policy: planPolicy(Ordered, 1), views: []View{asInUse(seen("a", Available, 0.11)), b},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold)}, need: []string{"a"}, next: "b"},
		{name: "at the mark", policy: planPolicy(Ordered, 1), views: []View{asInUse(seen("a", Available, 0.10)), b, c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"a", "b"}, next: "b"},
		{name: "the account in use is low, and the next fails", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(seen("a", Low, 0.04)), b, c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Failing), workerAt("c", Cold)}, need: []string{"a", "c"}, next: "c"},
		{name: "the worker of the account in use fails", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b, c},
			units: []Unit{workerAt("a", Failing), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"b"}},
		{name: "its operator holds the next", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(seen("a", Low, 0.04)), b, c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Held), workerAt("c", Cold)}, need: []string{"a", "c"}, next: "c"},
		{name: "the next is paused", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(seen("a", Low, 0.04)), asPaused(b), c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"a", "c"}, next: "c"},
		{name: "no successor has the same quota", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(asShared("x", seen("a", Available, 0.1))), asShared("x", seen("b", Available, 0.1)), c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"a", "c"}, next: "c"},
		{name: "an available successor comes before a low one", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(seen("a", Low, 0.04)), seen("b", Low, 0.03), c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"a", "c"}, next: "c"},
		{name: "an exhausted account is read, an invalid one is not", policy: planPolicy(Ordered, 1),
			views: []View{seen("a", Exhausted, 0), asInUse(b), seen("c", LoginInvalid, 1)},
			units: []Unit{workerAt("a", Cold), workerAt("b", Warm), usedAgo(workerAt("c", Warm), time.Hour)},
			need:  []string{"a", "b"}, stop: []string{"c"}},
		{name: "turns and late conversations keep a worker", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b, c},
			units: []Unit{workerAt("a", Warm), {Name: "b", Phase: Warm, Turns: 1, ReadyAt: ago(time.Hour)},
				usedAgo(workerAt("c", Warm), 9*time.Minute)}, need: []string{"a", "b"}, next: "b"},
		{name: "idle long enough", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b},
			units: []Unit{workerAt("a", Warm), usedAgo(workerAt("b", Warm), 10*time.Minute)}, need: []string{"a"},
			stop: []string{"b"}, next: "b"},
		{name: "prewarmed and unused", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b},
			units: []Unit{workerAt("a", Warm), {Name: "b", Phase: Warm, ReadyAt: ago(time.Hour), NeededAt: ago(time.Minute)}},
			need:  []string{"a"}, next: "b"},
		{name: "surplus of the start, read", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b, c},
			units: []Unit{workerAt("a", Warm), workerAt("b", Warm), {Name: "c", Phase: Warm, ReadyAt: noon.Add(time.Second)}},
			need:  []string{"a"}, stop: []string{"b"}, next: "b"},
		{name: "the surplus serves until the account in use does", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(a), b, c}, units: []Unit{workerAt("a", Coming), workerAt("b", Warm), workerAt("c", Cold)},
			need: []string{"a"}, next: "b"},
		{name: "the surplus runs for a moment at least", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b, c},
			units: []Unit{workerAt("a", Warm), {Name: "b", Phase: Warm, ReadyAt: ago(14 * time.Second)},
				{Name: "c", Phase: Warm, ReadyAt: ago(15 * time.Second)}}, need: []string{"a"}, stop: []string{"c"}, next: "b"},
		{name: "a request waits", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b},
			units: []Unit{workerAt("a", Warm), {Name: "b", Phase: Cold, WantedAt: ago(time.Second)}},
			need:  []string{"a", "b"}, next: "b"},
		{name: "a request waited before the pause", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), asPaused(b)},
			units: []Unit{workerAt("a", Warm), {Name: "b", Phase: Cold, WantedAt: ago(time.Second)}},
			need:  []string{"a"}},
		{name: "an operator has resumed it", policy: planPolicy(Ordered, 1), views: []View{asInUse(a), b},
			units: []Unit{workerAt("a", Warm), {Name: "b", Phase: Cold, AskedAt: ago(time.Minute)}},
			need:  []string{"a", "b"}, next: "b"},
		{name: "the reset of a low account has passed", policy: planPolicy(Ordered, 1),
			views: []View{asInUse(a), asReset(ago(time.Minute), seen("b", Low, 0.02)),
				asReset(noon.Add(time.Minute), seen("c", Low, 0.02))},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"a", "b"}, next: "b"},
		{name: "even: the one with the most left", policy: planPolicy(Even, 1), views: []View{asInUse(c), b, a},
			units: []Unit{workerAt("c", Cold), workerAt("b", Cold), workerAt("a", Cold)}, need: []string{"a"}},
		{name: "even: a small difference moves nothing", policy: planPolicy(Even, 1), views: []View{a, seen("b", Available, 0.85)},
			units: []Unit{workerAt("a", Cold), workerAt("b", Warm)}, need: []string{"b"}},
		{name: "even: a large difference does", policy: planPolicy(Even, 1), views: []View{a, seen("b", Available, 0.7)},
			units: []Unit{workerAt("a", Cold), usedAgo(workerAt("b", Warm), time.Minute)}, need: []string{"a"}},
		{name: "even: a limit that has been reset counts as free until it is read", policy: planPolicy(Even, 1),
			views: []View{seen("a", Available, 0.5), asReset(ago(time.Minute), seen("b", Available, 0.3)),
				asReset(noon.Add(time.Minute), seen("c", Available, 0.3))},
			units: []Unit{workerAt("a", Warm), workerAt("b", Cold), workerAt("c", Cold)}, need: []string{"b"}},
		{name: "all are warm", policy: planPolicy(Ordered, 0), views: []View{asInUse(a), b},
			units: []Unit{workerAt("a", Warm), usedAgo(workerAt("b", Warm), time.Hour)}, next: "b"},
		{name: "off", policy: planPolicy(Off, 1), views: []View{asInUse(a), b},
			units: []Unit{workerAt("a", Warm), usedAgo(workerAt("b", Warm), time.Hour)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var need, stop []string
			next := ""
			for i, s := range Plan(tc.policy, tc.views, tc.units, noon) {
				assert.Equal(t, tc.views[i].Name, s.Name)
				assert.NotEmpty(t, s.Why)
				if s.Need {
					need = append(need, s.Name)
				}
				if s.Stop {
					stop = append(stop, s.Name)
				}
				if s.Next {
					assert.Empty(t, next)
					next = s.Name
				}
			}
			assert.Equal(t, tc.need, need, "needed")
			assert.Equal(t, tc.stop, stop, "stopped")
			assert.Equal(t, tc.next, next, "next")
		})
	}
}

// Whatever the accounts and the workers are, the plan keeps these rules.
func TestPlanProperties(t *testing.T) {
	states := States
	phases := []Phase{Cold, Coming, Warm, Going, Failing, Held}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := planPolicy([]Rotation{Ordered, Even}[r.IntN(2)], 1+r.IntN(3))
		n := 1 + r.IntN(6)
		views, units := make([]View, n), make([]Unit, n)
		for i := range n {
			name := string(rune('a' + i))
			views[i] = seen(name, states[r.IntN(len(states))], r.Float64())
			views[i].Paused = r.IntN(8) == 0
			units[i] = Unit{Name: name, Phase: phases[r.IntN(len(phases))], Turns: r.IntN(2),
				UsedAt: ago(time.Duration(r.IntN(30)) * time.Minute), ReadyAt: ago(time.Hour)}
		}
		views[r.IntN(n)].InUse = true
		steps := Plan(p, views, units, noon)
		assert.Equal(t, steps, Plan(p, views, units, noon), "seed %d: the same input", seed)
		checkPlan(t, p, views, units, steps, seed)
	}
}

func checkPlan(t *testing.T, p Policy, views []View, units []Unit, steps []Step, seed uint64) {
	t.Helper()
	needed, serving, sound, stops, warm := 0, 0, 0, 0, 0
	for i, s := range steps {
		v, u := views[i], units[i]
		serves := v.State.Serves() && !v.Paused && u.Phase != Held
		assert.False(t, s.Need && s.Stop, "seed %d: %s", seed, s.Name)
		assert.False(t, s.Stop && (u.Turns > 0 || u.Phase != Warm), "seed %d: %s is stopped", seed, s.Name)
		assert.False(t, s.Need && u.Phase == Held, "seed %d: %s is an operator's", seed, s.Name)
		assert.False(t, s.Next && !serves, "seed %d: %s is next", seed, s.Name)
		if s.Stop {
			stops++
		}
		if s.Need && u.Phase == Warm {
			warm++
		}
		if serves && u.Phase != Failing && u.Phase != Going {
			sound++
		}
		if s.Need && serves {
			if u.Turns == 0 {
				needed++
			}
			if u.Phase != Failing && u.Phase != Going {
				serving++
			}
		}
	}
	assert.GreaterOrEqual(t, serving, min(p.Warm, sound), "seed %d: a sound account serves while there is one", seed)
	assert.False(t, stops > 0 && warm == 0, "seed %d: the last worker that takes turns is stopped", seed)
	assert.LessOrEqual(t, needed, p.Warm+1, "seed %d: a further worker has a reason of its own", seed)
}
