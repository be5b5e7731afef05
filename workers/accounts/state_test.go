package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "codex-proxy/workers/accounts"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	policy = Policy{Rotation: Ordered, RotateAt: 0.05}
)

// quota is one that was read at noon; used are the shares of 5h and 7d.
func quota(used ...float64) Quota {
	q := Quota{Source: Reading, At: noon}
	for i, u := range used {
		q.Windows = append(q.Windows, NewWindow([]int64{300, 10080}[i], u, noon.Add(time.Hour)))
	}
	return q
}

func with(q Quota, change func(*Quota)) Quota {
	change(&q)
	return q
}

func refused(q *Quota) { q.RefusedAt = noon }

func TestState(t *testing.T) {
	credits := func(c Credits) func(*Quota) { return func(q *Quota) { q.Credits = &c } }
	bought := credits(Credits{Has: true, Balance: "12.5"})
	for name, c := range map[string]struct {
		quota Quota
		after time.Duration
		want  State
	}{
		"never read":                   {Quota{}, 0, Unknown},
		"never read, refused":          {with(Quota{}, refused), 24 * time.Hour, Exhausted},
		"all left":                     {quota(0, 0), 0, Available},
		"one window":                   {quota(0.5), 0, Available},
		"just above the mark":          {quota(0.1, 0.94), 0, Available},
		"at the mark":                  {quota(0.1, 0.95), 0, Low},
		"low in the shorter":           {quota(0.97, 0.1), 0, Low},
		"used up":                      {quota(1, 0.1), 0, Exhausted},
		"its reset has passed":         {quota(1, 0.1), 300 * time.Hour, Exhausted},
		"low, and its reset passed":    {quota(0.97, 0.1), 300 * time.Hour, Low},
		"refused with quota":           {with(quota(0.2), refused), time.Hour, Exhausted},
		"a limit other than a window":  {with(quota(0.2), func(q *Quota) { q.Reached = "x" }), 0, Exhausted},
		"the server allows no use":     {with(quota(0.2), func(q *Quota) { q.Allowed = new(bool) }), 0, Exhausted},
		"rounded to all, yet allowed":  {with(quota(1), func(q *Quota) { q.Allowed = new(true) }), 0, Low},
		"used up, credits":             {with(quota(1), bought), 0, Low},
		"used up, unlimited credits":   {with(quota(1), credits(Credits{Unlimited: true})), 0, Low},
		"used up, credits without end": {with(quota(1), credits(Credits{Has: true, Balance: "lots"})), 0, Low},
		"used up, no balance":          {with(quota(1), credits(Credits{Has: true, Balance: "0.00"})), 0, Exhausted},
		"used up, no credits":          {with(quota(1), credits(Credits{Balance: "3"})), 0, Exhausted},
		"used up, credits, spend limit": {with(with(quota(1), bought), func(q *Quota) { q.SpendReached = true }), 0,
			Exhausted},
		"used up, credits of the workspace depleted": {with(with(quota(1), bought), func(q *Quota) {
			q.Reached = "workspace_member_credits_depleted"
		}), 0, Exhausted},
		"used up, credits, windows reached": {with(with(quota(1), bought), func(q *Quota) {
			q.Reached = "rate_limit_reached"
		}), 0, Low},
		"credits, refused":    {with(with(quota(1), bought), refused), 0, Exhausted},
		"no windows":          {quota(), 0, Available},
		"no windows, refused": {with(quota(), refused), LimitlessPause - 1, Exhausted},
		"later":               {with(quota(), refused), LimitlessPause, Unknown},
		"invalid":             {with(quota(1), func(q *Quota) { q.InvalidAt = noon }), 300 * time.Hour, LoginInvalid},
	} {
		assert.Equal(t, c.want, c.quota.State(policy, noon.Add(c.after)), name)
	}
}

func TestUntil(t *testing.T) {
	q := quota(1, 1)
	q.Windows[1].ResetsAt = noon.Add(50 * time.Hour)
	assert.Equal(t, noon.Add(50*time.Hour), q.Until(noon), "both windows must end")
	assert.Equal(t, noon.Add(time.Hour), quota(1, 0.3).Until(noon), "a window with quota is not waited for")
	assert.Zero(t, quota(1).Until(noon.Add(time.Hour)), "a reset that has passed is no chance")
	assert.Equal(t, noon.Add(2*time.Hour),
		with(quota(0.2), func(q *Quota) { q.RefusedAt, q.RefusedUntil = noon, noon.Add(2*time.Hour) }).Until(noon))
}

func TestNextReading(t *testing.T) {
	last := noon.Add(time.Second)
	resets := func(in time.Duration) Quota {
		return with(quota(1), func(q *Quota) { q.Windows[0].ResetsAt = noon.Add(in) })
	}
	updated := with(quota(0.5), func(q *Quota) { q.At = noon.Add(time.Minute) })
	refusedAgain := with(quota(0.5), func(q *Quota) { q.RefusedAt = last.Add(1) })
	for name, c := range map[string]struct {
		quota Quota
		want  time.Time
	}{
		"never read":             {Quota{}, last.Add(IdleInterval)},
		"available":              {quota(0.5), last.Add(IdleInterval)},
		"low":                    {quota(0.97), last.Add(IdleInterval)},
		"updated since":          {updated, noon.Add(time.Minute + IdleInterval)},
		"invalid":                {with(quota(0.5), func(q *Quota) { q.InvalidAt = noon }), last.Add(IdleInterval)},
		"exhausted":              {quota(1), last.Add(ExhaustedInterval)},
		"exhausted, a reset":     {resets(30 * time.Second), noon.Add(31 * time.Second)},
		"exhausted, a reset now": {resets(2 * time.Second), last.Add(LeastInterval)},
		"its reset has passed":   {resets(-time.Hour), last.Add(ExhaustedInterval)},
		"no windows, refused":    {with(quota(), refused), noon.Add(LimitlessPause)},
		"refused before":         {with(quota(0.5), refused), last.Add(ExhaustedInterval)},
		"refused since":          {refusedAgain, last.Add(LeastInterval)},
	} {
		assert.Equal(t, c.want, c.quota.NextReading(policy, last, noon.Add(time.Minute)), name)
	}
}

// No time of the next reading is on the clock of the day, which may be set back while the account waits for it.
func TestNextReadingOnTheMonotonicClock(t *testing.T) {
	last := time.Now()
	q := with(quota(1), func(q *Quota) { q.Windows[0].ResetsAt = last.Add(30 * time.Second).Round(0) })
	for name, c := range map[string]Quota{"a reset": q, "none": quota(1), "available": quota(0.5)} {
		assert.Contains(t, c.NextReading(policy, last, last).String(), " m=", name)
	}
	assert.Equal(t, 31*time.Second, q.NextReading(policy, last, last).Sub(last))
}
