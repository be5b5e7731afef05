package accounts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "codex-proxy/workers/accounts"
)

func candidates(changes ...func(*Candidate)) []Candidate {
	var cs []Candidate
	for i, change := range changes {
		c := Candidate{Name: string(rune('a' + i)), State: Available, Left: 0.5, Place: true}
		change(&c)
		cs = append(cs, c)
	}
	return cs
}

func in(s State) func(*Candidate)     { return func(c *Candidate) { c.State = s } }
func left(l float64) func(*Candidate) { return func(c *Candidate) { c.Left = l } }
func load(turns int) func(*Candidate) { return func(c *Candidate) { c.Load = turns } }
func plain(*Candidate)                {}
func affine(c *Candidate)             { c.Affinity = true }
func used(c *Candidate)               { c.InUse = true }
func paused(c *Candidate)             { c.Paused = true }
func full(c *Candidate)               { c.Place = false }
func limitless(c *Candidate)          { c.Limitless, c.Left = true, 1 }
func both(a, b func(*Candidate)) func(*Candidate) {
	return func(c *Candidate) { a(c); b(c) }
}

func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		rotation Rotation
		cs       []Candidate
		want     int
	}{
		"none":                        {Ordered, nil, -1},
		"ordered: the one in use":     {Ordered, candidates(plain, used, plain), 1},
		"ordered: the next":           {Ordered, candidates(plain, both(used, in(Low)), plain), 2},
		"ordered: round the end":      {Ordered, candidates(plain, plain, both(used, in(Exhausted))), 0},
		"ordered: spills over":        {Ordered, candidates(plain, both(used, full), plain), 2},
		"ordered: load is no matter":  {Ordered, candidates(both(used, load(9)), plain), 0},
		"ordered: affinity":           {Ordered, candidates(used, affine), 1},
		"ordered: low affinity":       {Ordered, candidates(used, both(affine, in(Low))), 0},
		"ordered: affinity is full":   {Ordered, candidates(plain, used, both(affine, full)), 1},
		"ordered: unknown serves":     {Ordered, candidates(both(used, in(Unknown)), plain), 0},
		"low without an available":    {Ordered, candidates(both(used, in(Low)), in(Exhausted)), 0},
		"low, as no other has room":   {Ordered, candidates(both(used, in(Low)), full), 0},
		"low with affinity":           {Even, candidates(in(Low), both(both(affine, in(Low)), left(0.01))), 1},
		"exhausted":                   {Even, candidates(both(in(Exhausted), affine)), -1},
		"login invalid":               {Even, candidates(in(LoginInvalid)), -1},
		"paused":                      {Ordered, candidates(both(used, paused)), -1},
		"paused, another one serves":  {Ordered, candidates(both(affine, paused), both(used, in(Low))), 1},
		"even: most left":             {Even, candidates(left(0.3), left(0.6), left(0.5)), 1},
		"even: fewest turns":          {Even, candidates(load(3), load(2), load(2)), 1},
		"even: affinity":              {Even, candidates(both(left(0.1), affine), left(0.9)), 0},
		"even: no window, idle":       {Even, candidates(both(left(0.2), load(1)), limitless), 1},
		"even: no window, busy":       {Even, candidates(both(left(0.2), load(1)), both(limitless, load(2))), 0},
		"even: no window, level":      {Even, candidates(left(0.2), both(limitless, load(2)), left(0.1)), 0},
		"even: the account in use":    {Even, candidates(load(1), both(used, load(2))), 0},
		"even: only without a window": {Even, candidates(both(limitless, load(1)), limitless), 1},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, Choose(Policy{Rotation: tc.rotation}, tc.cs))
		})
	}
}

// rounds of a property test; each has its own seed, which the failure names.
const rounds = 20000

func eachSeed(t *testing.T, check func(t *testing.T, r *rand.Rand, p Policy)) {
	t.Helper()
	for seed := range uint64(rounds) {
		p := Policy{Rotation: []Rotation{Ordered, Even}[seed%2]}
		check(t, rand.New(rand.NewPCG(seed, 1)), p)
		if t.Failed() {
			require.FailNow(t, fmt.Sprintf("seed %d, rotation %s", seed, p.Rotation))
		}
	}
}

func arbitrary(r *rand.Rand, p Policy) []Candidate {
	cs := make([]Candidate, 1+r.IntN(10))
	for i := range cs {
		cs[i] = Candidate{
			Name: string(rune('a' + i)), Quota: []string{"", "x", "y"}[r.IntN(3)], State: States[r.IntN(len(States))],
			Paused: r.IntN(8) == 0, Left: float64(r.IntN(5)) / 4, Limitless: r.IntN(6) == 0, Load: r.IntN(4),
			Place: r.IntN(4) > 0,
		}
	}
	if r.IntN(2) == 0 {
		cs[r.IntN(len(cs))].Affinity = true
	}
	if p.Rotation == Ordered {
		cs[r.IntN(len(cs))].InUse = true
	}
	return cs
}

func TestChooseNeverAnAccountThatDoesNotServe(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand, p Policy) {
		cs := arbitrary(r, p)
		can := func(c Candidate) bool { return c.Serves() && c.Place }
		i := Choose(p, cs)
		if i < 0 {
			assert.False(t, slices.ContainsFunc(cs, can), "none is chosen although one can: %+v", cs)
			return
		}
		c := cs[i]
		assert.NotContains(t, []State{Exhausted, LoginInvalid}, c.State, "%+v", cs)
		assert.True(t, c.Place && !c.Paused, "%+v", cs)
		if c.State == Low {
			assert.False(t, slices.ContainsFunc(cs, func(c Candidate) bool { return can(c) && c.State != Low }),
				"low although one is available: %+v", cs)
		}
	})
}

func TestChooseStaysWithTheConversation(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand, p Policy) {
		cs := arbitrary(r, p)
		i := slices.IndexFunc(cs, func(c Candidate) bool { return c.Affinity })
		if i >= 0 && cs[i].Available() && cs[i].Place {
			assert.Equal(t, i, Choose(p, cs), "%+v", cs)
		}
	})
}

func TestChooseIsAFunction(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand, p Policy) {
		cs := arbitrary(r, p)
		same := slices.Clone(cs)
		first := Choose(p, cs)
		assert.Equal(t, first, Choose(p, same))
		assert.Equal(t, same, cs, "the candidates are unchanged")
	})
}

// The windows of accounts of different sizes stay level, each account gets its turns, and
// none waits for another one to be used up.
func TestChooseEvenStarvesNone(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		cs := make([]Candidate, 2+r.IntN(9))
		sizes, turns := make([]float64, len(cs)), make([]int, len(cs))
		for i := range cs {
			cs[i] = Candidate{Name: string(rune('a' + i)), State: Available, Left: 1, Place: true}
			cs[i].Limitless = i > 0 && r.IntN(5) == 0
			sizes[i] = float64(200 + r.IntN(400))
		}
		for range 100 * len(cs) {
			i := Choose(Policy{Rotation: Even}, cs)
			turns[i]++
			if cs[i].Load++; cs[i].Load > 3 { // turns end
				for j := range cs {
					cs[j].Load = 0
				}
			}
			cs[i].Left -= 1 / sizes[i]
		}
		least, most := 1.0, 0.0
		for i, c := range cs {
			assert.Positive(t, turns[i], "seed %d: account %d of %+v", seed, i, cs)
			if !c.Limitless {
				least, most = min(least, c.Left), max(most, c.Left)
			}
		}
		require.InDelta(t, least, most, 0.02, "seed %d: %+v", seed, cs)
	}
}

// In a life of ordered accounts, of which each is used up and comes back, the one in use
// serves until it is low, then the next available one, and each gets its turns.
func TestChooseOrderedUsesOneAfterTheOther(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 2 + r.IntN(5)
		views, turns, inUse := make([]View, n), make([]int, n), "a"
		for i := range views {
			views[i] = View{Name: string(rune('a' + i)), State: Available, Left: 1}
		}
		for step := range 60 * n {
			cs := make([]Candidate, n)
			for i := range views {
				views[i].InUse = views[i].Name == inUse
				cs[i] = CandidateOf(&views[i])
				cs[i].Place = true
			}
			i := Choose(Policy{Rotation: Ordered}, cs)
			if i < 0 {
				for i := range views {
					views[i] = View{Name: string(rune('a' + i)), State: Available, Left: 1}
				}
				continue
			}
			if v := views[i]; v.State == Available {
				require.True(t, v.InUse, "seed %d step %d: %+v", seed, step, views)
			}
			turns[i]++
			if views[i].Left -= 0.05; views[i].Left < 0.1 {
				views[i].State = []State{Low, Exhausted}[r.IntN(2)]
			}
			next := Next(views, inUse)
			if views[i].State == Available {
				require.Equal(t, inUse, next, "seed %d step %d: it leaves an account that is available", seed, step)
			}
			inUse = next
		}
		for i := range turns {
			assert.Positive(t, turns[i], "seed %d: account %d gets no turn", seed, i)
		}
	}
}

func TestNext(t *testing.T) {
	for _, tc := range []struct{ states, current, next string }{
		{"aaa", "b", "b"},
		{"ala", "b", "c"},
		{"all", "b", "a"},
		{"lel", "b", "c"},
		{"ele", "b", "b"},
		{"eee", "b", "b"},
		{"uul", "b", "b"},
		{"ulu", "b", "c"},
		{"auu", "b", "b"},
		{"iue", "c", "b"},
		{"pla", "c", "c"},
		{"ppp", "a", "a"},
		{"aaa", "gone", "a"},
		{"", "a", "a"},
	} {
		letters := map[rune]State{
			'a': Available, 'l': Low, 'e': Exhausted, 'i': LoginInvalid, 'u': Unknown, 'p': Available,
		}
		var views []View
		for i, letter := range tc.states {
			views = append(views, View{Name: string(rune('a' + i)), State: letters[letter], Paused: letter == 'p'})
		}
		assert.Equal(t, tc.next, Next(views, tc.current), tc)
	}
}

func TestConversationRotatesOnceAMinute(t *testing.T) {
	cs := candidates(in(Exhausted), plain, in(Low), plain)
	cs[0].Quota, cs[3].Quota = "x", "x"
	on := func(account string) Conversation { return Conversation{Account: account, Rotated: noon} }
	assert.True(t, on("a").Rotates(cs, 1, 0), "away from a quota that is used up")
	assert.False(t, on("a").Rotates(cs, 3, 0), "the same quota")
	assert.True(t, on("c").Rotates(cs, 1, 0), "away from a low account")
	assert.False(t, on("c").Rotates(cs, 2, 0), "it stays")
	assert.False(t, on("b").Rotates(cs, 2, 0), "full, or away")
	assert.True(t, on("b").Rotates(cs, 2, 1), "switched by the operator")
	assert.False(t, on("gone").Rotates(cs, 1, 1))
	assert.False(t, Conversation{}.Rotates(cs, 1, 1))
	assert.Equal(t, noon.Add(RotationPause), on("a").Held(noon.Add(RotationPause-1)))
	assert.Zero(t, on("a").Held(noon.Add(RotationPause)))
	assert.Zero(t, Conversation{}.Held(noon))
}

func TestConversationAffinity(t *testing.T) {
	cs := candidates(in(Exhausted), plain, in(Low), plain)
	for name, tc := range map[string]struct {
		account, prefer string
		switched, held  bool
		want            string
	}{
		"nothing known":              {want: ""},
		"the last account":           {account: "b", want: "b"},
		"the thread":                 {account: "b", prefer: "d", want: "d"},
		"the thread alone":           {prefer: "d", want: "d"},
		"the thread is out":          {account: "b", prefer: "a", want: "b"},
		"the thread alone, and out":  {prefer: "a", want: "a"},
		"switched":                   {account: "b", prefer: "d", switched: true, want: ""},
		"switched within the minute": {account: "b", switched: true, held: true, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			switches := uint64(0)
			if tc.switched {
				switches = 1
			}
			assert.Equal(t, tc.want, Conversation{Account: tc.account}.Affinity(cs, tc.prefer, switches, tc.held))
		})
	}
}

func TestConversationsAreBounded(t *testing.T) {
	c := NewConversations(2)
	a, b := Conversation{Account: "a", Rotated: noon}, Conversation{Account: "b"}
	c.Put("", a)
	assert.Zero(t, c.Find(""))
	c.Put("1", a)
	c.Put("2", b)
	c.Put("1", b)
	c.Put("3", a)
	assert.Equal(t, b, c.Find("1"))
	assert.Zero(t, c.Find("2"), "the one unused for longest")
	assert.Equal(t, a, c.Find("3"))
	assert.Equal(t, time.Time{}, c.Find("4").Rotated)
}
