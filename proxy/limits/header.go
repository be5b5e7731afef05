package limits

import (
	"net/http"
	"strconv"
	"time"

	"codex-proxy/proxy/usage"
)

// MarkHeader reports to the client how much of its limits is left, in OpenAI's headers.
// It is to be called when the header is about to be sent, with the counts that are not
// settled yet.
func (g *Grant) MarkHeader(h http.Header, counts usage.Counts) {
	requests, tokens := g.standings(counts)
	requests.show(h, "requests")
	tokens.show(h, "tokens")
}

// MarkAnthropicHeader is MarkHeader in Anthropic's headers.
func (g *Grant) MarkAnthropicHeader(h http.Header, counts usage.Counts) {
	requests, tokens := g.standings(counts)
	requests.showAnthropic(h, "Requests")
	tokens.showAnthropic(h, "Tokens")
}

// standings are the remaining requests and tokens of the key; nil where it has no such limit.
func (g *Grant) standings(counts usage.Counts) (requests, tokens *standing) {
	if l := g.key.Limits; l.RequestsPerMinute == 0 && l.TokensPerMinute == 0 && l.TokensPerDay == 0 {
		return nil, nil
	}
	pending := int64(0)
	if g.turns > 0 {
		pending = counts.Tokens()
	}
	return g.limiter.standings(g.key.Name, g.key.Limits, pending)
}

// show writes the three headers of one limit. OpenAI's form of durations (6m0s, 1s,
// 250ms) is Go's.
func (st *standing) show(h http.Header, limit string) {
	if st == nil {
		return
	}
	h.Set("X-Ratelimit-Limit-"+limit, strconv.FormatInt(st.limit, 10))
	h.Set("X-Ratelimit-Remaining-"+limit, strconv.FormatInt(st.remaining, 10))
	h.Set("X-Ratelimit-Reset-"+limit, (st.reset + time.Millisecond - 1).Truncate(time.Millisecond).String())
}

// showAnthropic writes the three headers of one limit. The reset is a time of RFC 3339, rounded up
// to a second.
// Source: https://docs.anthropic.com/en/api/rate-limits, "Response headers".
func (st *standing) showAnthropic(h http.Header, limit string) {
	if st == nil {
		return
	}
	name := "Anthropic-Ratelimit-" + limit
	reset := time.Now().Add(st.reset + time.Second - 1).UTC().Truncate(time.Second)
	h.Set(name+"-Limit", strconv.FormatInt(st.limit, 10))
	h.Set(name+"-Remaining", strconv.FormatInt(st.remaining, 10))
	h.Set(name+"-Reset", reset.Format(time.RFC3339))
}
