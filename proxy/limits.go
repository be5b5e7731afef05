package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/usage"
)

// limit lets a request in, before it waits for a worker: its key may use the model
// that it asks for, and has not used up what it may use. effort is the one that it
// asks for, or none; choices are turns of their own. What is to run is returned;
// what is answered, counted and logged is x.model, by the client's name for it.
// settle is the other end.
// Most of it was applied before the body was decoded, see enter.
func (s *Server) limit(x *exchange, model, effort string, choices int) (runs, with string, err error) {
	if !x.limits.Allows(model) {
		s.limiter.refuse(x.key, auth.Models)
		return "", "", s.noModel(x.limits, model)
	}
	target, err := s.aliases.resolve(model, effort, x.field("reasoning_effort", "reasoning.effort"))
	if err == nil {
		err = s.letIn(x, int64(choices))
	}
	return target.Model, target.Effort, err
}

// enter is as much of limit as needs no decoded body, which a key that has used up
// what it may use is not worth.
func (s *Server) enter(x *exchange, w openai.Weight) error {
	if w.Model != "" && !x.limits.Allows(w.Model) {
		x.model = w.Model
		s.limiter.refuse(x.key, auth.Models)
		return s.noModel(x.limits, w.Model)
	}
	if err := s.letIn(x, min(max(w.Choices, 1), openai.MaxChoices)); err != nil {
		x.model = w.Model
		return err
	}
	return nil
}

// letIn lets a request of so many turns in, less those that it has been let in with.
func (s *Server) letIn(x *exchange, turns int64) error {
	if x.key == "" || turns <= x.turns {
		return nil
	}
	for _, limit := range []string{auth.Concurrent, auth.RequestsPerMinute} {
		if most := x.limits.Number(limit); most > 0 && turns > most { // to come again would not help
			s.limiter.refuse(x.key, limit)
			return openai.Invalid("invalid_value", "n", fmt.Sprintf("n must not be larger than the limit of this API key: %s=%d", limit, most))
		}
	}
	if met, wait := s.limiter.begin(x.key, x.limits, turns-x.turns); met != "" {
		return s.limitMet(met, x.limits, wait)
	}
	x.turns = turns
	return nil
}

// settle counts what a request has used, once: before the last of its answer is sent,
// as the client may come again as soon as it has that, or when it has ended.
func (s *Server) settle(x *exchange) {
	if x.settled {
		return
	}
	x.settled = true
	counts := countsOf(x)
	if counts.Requests > 0 {
		s.Usage.Add(x.key, x.model, counts)
	}
	if x.turns > 0 {
		s.limiter.end(x.key, x.limits, x.turns, counts.Tokens())
		x.turns = 0
	}
}

// countsOf is nothing before a worker has taken the request: until then the name
// of the model is the client's invention.
func countsOf(x *exchange) usage.Counts {
	c := usage.Counts{}
	if x.attempts == 0 {
		return c
	}
	c.Requests = 1
	if u := x.usage; u != nil {
		c.InputTokens, c.CachedTokens = u.PromptTokens, u.PromptTokensDetails.CachedTokens
		c.OutputTokens, c.ReasoningTokens = u.CompletionTokens, u.CompletionTokensDetails.ReasoningTokens
	}
	return c
}

func (s *Server) limitMet(met string, limits auth.Limits, wait time.Duration) error {
	message := fmt.Sprintf("this API key has met its limit: %s=%s; send the request again later", met, limits.Value(met))
	switch met {
	case auth.Concurrent:
		return tooMany(openai.TypeRateLimit, "concurrency_exceeded", message, s.nextPlace())
	case auth.TokensPerDay:
		return tooMany(openai.TypeQuota, "insufficient_quota", message+", the day ends at midnight UTC", wholeSeconds(wait))
	default:
		return tooMany(openai.TypeRateLimit, "rate_limited", message, wholeSeconds(wait))
	}
}

// wholeSeconds rounds up: who comes a little early is refused again.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// showLimits tells the client where its key stands, in OpenAI's headers. It is
// called when the header is about to be sent.
func (s *Server) showLimits(h http.Header, x *exchange) {
	if l := x.limits; l.RequestsPerMinute == 0 && l.TokensPerMinute == 0 && l.TokensPerDay == 0 {
		return
	}
	pending := int64(0)
	if x.turns > 0 {
		pending = countsOf(x).Tokens()
	}
	requests, tokens := s.limiter.standings(x.key, x.limits, pending)
	requests.show(h, "requests")
	tokens.show(h, "tokens")
}

// show writes the three headers of one limit. Durations are as OpenAI writes
// them (6m0s, 1s, 250ms), which is Go's way.
func (st *standing) show(h http.Header, what string) {
	if st == nil {
		return
	}
	h.Set("X-Ratelimit-Limit-"+what, strconv.FormatInt(st.limit, 10))
	h.Set("X-Ratelimit-Remaining-"+what, strconv.FormatInt(st.remaining, 10))
	h.Set("X-Ratelimit-Reset-"+what, (st.reset + time.Millisecond - 1).Truncate(time.Millisecond).String())
}
