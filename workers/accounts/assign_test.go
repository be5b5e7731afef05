package accounts_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "codex-proxy/workers/accounts"
)

func TestLend(t *testing.T) {
	available := Candidate{State: Available, Place: true, Left: 0.5}
	candidates := func(edits ...func(c []Candidate)) []Candidate {
		cs := slices.Repeat([]Candidate{available}, 3)
		for i, name := range []string{"a", "b", "c"} {
			cs[i].Name = name
		}
		cs[0].InUse = true
		for _, edit := range edits {
			edit(cs)
		}
		return cs
	}
	state := func(i int, s State) func([]Candidate) { return func(c []Candidate) { c[i].State = s } }
	paused := func(i int) func([]Candidate) { return func(c []Candidate) { c[i].Paused = true } }
	away := func(i int) func([]Candidate) { return func(c []Candidate) { c[i].Place = false } }
	inUse := func(i int) func([]Candidate) {
		return func(c []Candidate) { c[0].InUse = false; c[i].InUse = true }
	}
	on := func(account string) Client { return Client{Conversation: Conversation{Account: account}} }
	recent := func(account string) Client {
		return Client{Conversation: Conversation{Account: account, Rotated: noon.Add(-30 * time.Second)}}
	}
	limited := func(b Client) Client { b.Limited = true; return b }
	turn := func(b Client) Client { b.Turn = true; return b }
	pause := noon.Add(30 * time.Second)
	for name, c := range map[string]struct {
		rotation   Rotation
		cs         []Candidate
		b          Client
		switches   uint64
		want       string
		until      time.Time
		hasRotated bool
	}{
		"the first one":                      {Ordered, candidates(), on(""), 0, "a", time.Time{}, false},
		"the one in use":                     {Ordered, candidates(inUse(1)), on(""), 0, "b", time.Time{}, false},
		"it stays":                           {Ordered, candidates(), on("b"), 0, "b", time.Time{}, false},
		"at a limit, the next":               {Ordered, candidates(), limited(on("a")), 0, "b", time.Time{}, true},
		"at a limit in a turn":               {Ordered, candidates(), limited(turn(on("a"))), 0, "b", time.Time{}, true},
		"not one that is out":                {Ordered, candidates(state(1, Exhausted)), limited(on("a")), 0, "c", time.Time{}, true},
		"nor one that is paused":             {Ordered, candidates(paused(1)), limited(on("a")), 0, "c", time.Time{}, true},
		"nor one whose worker is down":       {Ordered, candidates(away(1)), limited(on("a")), 0, "c", time.Time{}, true},
		"low, between turns":                 {Ordered, candidates(state(0, Low)), on("a"), 0, "b", time.Time{}, true},
		"low, in a turn":                     {Ordered, candidates(state(0, Low)), turn(on("a")), 0, "a", time.Time{}, false},
		"paused, between turns":              {Ordered, candidates(paused(0)), on("a"), 0, "b", time.Time{}, true},
		"paused, in a turn":                  {Ordered, candidates(paused(0)), turn(on("a")), 0, "a", time.Time{}, false},
		"a switch of the operator":           {Ordered, candidates(inUse(2)), on("a"), 1, "c", time.Time{}, true},
		"a switch in a turn":                 {Ordered, candidates(inUse(2)), turn(on("a")), 1, "a", time.Time{}, false},
		"the minute after a rotation":        {Ordered, candidates(), limited(recent("a")), 0, "", pause, false},
		"low within the minute":              {Ordered, candidates(state(0, Low)), recent("a"), 0, "a", pause, false},
		"nothing waits for the minute's end": {Ordered, candidates(state(1, Exhausted), state(2, Exhausted)), limited(recent("a")), 0, "", time.Time{}, false},
		"all out":                            {Ordered, candidates(state(1, Exhausted), state(2, LoginInvalid)), limited(on("a")), 0, "", time.Time{}, false},
		"its worker is down":                 {Ordered, candidates(away(0)), on("a"), 0, "b", time.Time{}, false},
		"the one with the most left": {Even, candidates(func(c []Candidate) { c[2].Left = 0.9 }),
			on(""), 0, "c", time.Time{}, false},
		"off: the first one":             {Off, candidates(), on(""), 0, "a", time.Time{}, false},
		"off: it stays, whatever is low": {Off, candidates(state(1, Low), state(0, Available)), on("b"), 0, "b", time.Time{}, false},
		"off: even if it is exhausted":   {Off, candidates(state(1, Exhausted)), on("b"), 0, "b", time.Time{}, false},
		"off: no switch at a limit":      {Off, candidates(), limited(turn(on("b"))), 0, "", time.Time{}, false},
		"off: none to another worker":    {Off, candidates(away(1)), on("b"), 0, "", time.Time{}, false},
		"off: a pause":                   {Off, candidates(paused(1)), on("b"), 0, "a", time.Time{}, true},
		"off: a pause in a turn":         {Off, candidates(paused(1)), turn(on("b")), 0, "b", time.Time{}, false},
		"off: one that is gone":          {Off, candidates(), on("z"), 0, "a", time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Assign(Policy{Rotation: c.rotation}, c.cs, c.b, c.switches, noon)
			chosen := ""
			if got.Index >= 0 {
				chosen = c.cs[got.Index].Name
				assert.Equal(t, chosen, got.Next.Account)
			} else {
				assert.Equal(t, c.b.Conversation, got.Next)
			}
			assert.Equal(t, c.want, chosen)
			assert.Equal(t, c.until, got.Until)
			assert.Equal(t, c.hasRotated, got.Next.Rotated.Equal(noon))
		})
	}
}
