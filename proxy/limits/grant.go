package limits

import (
	"fmt"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/usage"
)

// Grant is the use of the limits by one request: memory, and the limits of its key. It belongs to the request's
// goroutine, and must be ended with Settle and Release.
type Grant struct {
	Body   Held   // memory of the request
	Answer Output // memory of its answer

	key     auth.Key // the zero value without keys
	limiter *Limiter
	turns   int64 // admitted by the limiter and not ended yet
	settled bool
}

// Grant creates the grant of a request with that key, which uses nothing yet.
func (l *Limiter) Grant(key auth.Key, memory *Memory) Grant {
	return Grant{key: key, limiter: l, Body: memory.Hold(key.Name), Answer: Output{held: memory.holdAnswer(key.Name)}}
}

// Allows reports whether the key may use a model. It counts a refusal.
func (g *Grant) Allows(model string) bool {
	if g.key.Limits.Allows(model) {
		return true
	}
	g.Refuse(auth.Models)
	return false
}

// Refuse counts a request that was refused because of a limit of its key.
func (g *Grant) Refuse(limit string) {
	if g.key.Name != "" {
		g.limiter.refuse(g.key.Name, limit)
	}
}

// Admit admits a request of so many turns, less the turns that were admitted before. The
// error is an *openai.Error that names the limit.
func (g *Grant) Admit(turns int64) error {
	if g.key.Name == "" || turns <= g.turns {
		return nil
	}
	for _, limit := range []string{auth.Concurrent, auth.RequestsPerMinute} {
		if most := g.key.Limits.Number(limit); most > 0 && turns > most { // the same request would never be admitted
			g.limiter.refuse(g.key.Name, limit)
			return openai.Invalid("invalid_value", "n",
				fmt.Sprintf("n must not be larger than the limit of this API key: %s=%d", limit, most))
		}
	}
	if met, wait := g.limiter.begin(g.key.Name, g.key.Limits, turns-g.turns); met != "" {
		return g.refusal(met, wait)
	}
	g.turns = turns
	return nil
}

// Settle counts the use of a request, once: before the last part of its answer is sent, as the client may send the next
// request as soon as it has it, or when the request has ended. model is the name that usage counts; shares are the
// accounts that served it. The use that codex makes of the threads later counts for the key, too.
func (g *Grant) Settle(model string, shares []usage.Share, threads ...string) {
	if g.settled || g.limiter == nil {
		return
	}
	g.settled = true
	counts := usage.Total(shares)
	if counts.Requests > 0 {
		g.limiter.usage.Add(g.key.Name, model, shares...)
	}
	if g.turns > 0 {
		g.limiter.end(g.key.Name, g.key.Limits, g.turns, counts.Tokens())
		g.turns = 0
	}
	if counts.Requests > 0 {
		g.limiter.own(threads, shares, owner{g.key.Name, model, g.key.Limits.TokensPerMinute})
	}
}

// Release releases the memory.
func (g *Grant) Release() {
	g.Body.Release()
	g.Answer.Release()
}

// refusal is the answer to a request that met a limit.
func (g *Grant) refusal(met string, wait time.Duration) error {
	message := fmt.Sprintf("this API key has met its limit: %s=%s; send the request again later", met,
		g.key.Limits.Value(met))
	switch met {
	case auth.Concurrent:
		return openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded", message, g.limiter.nextPlace())
	case auth.TokensPerDay:
		return openai.QuotaExceeded("insufficient_quota", message+", the day ends at midnight UTC", wholeSeconds(wait))
	default:
		return openai.RateLimited(message, wholeSeconds(wait))
	}
}

// wholeSeconds rounds up: a client that tries again a little early is refused again.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}
