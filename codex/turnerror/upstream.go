package turnerror

import (
	"cmp"
	"encoding/json"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// Upstream is a failure in the words of the model endpoint, without the additions of codex.
type Upstream struct {
	Message string // empty: codex reports a sentence of its own instead
	Code    string // error.code, empty unless codex passes the JSON on, as it does for most 400s
	Param   string // error.param, empty in the same cases as Code
	Phase   Phase
}

// Phase is the phase of the exchange with the model endpoint in which it failed.
type Phase int

// The phases.
const (
	Refused  Phase = iota // the endpoint answered the request with an error
	Unsent                // the request did not reach the endpoint
	Cut                   // the stream ended before its end
	Silent                // the endpoint sent nothing for too long
	InStream              // the endpoint reported an error in its stream, with a code that codex drops
)

// The beginnings of codex's texts, before the endpoint's words.
const (
	unexpectedStatus  = "unexpected status "
	rateLimitExceeded = "rate limit exceeded: "
	disconnected      = "stream disconnected before completion: "
)

// Upstream finds the endpoint's words in codex's text. The forms of codex 0.169, measured:
//
//	unexpected status 404 Not Found: WORDS, url: …, cf-ray: …, request id: …
//	rate limit exceeded: WORDS
//	stream disconnected before completion: WORDS or a reason of codex
//	WORDS, or the whole JSON body, of a 400
//
// WORDS are the body, or error.message of a body of JSON. For all other failures codex has sentences of its own.
func (e *Error) Upstream() Upstream {
	if e.hasOwnSentence() {
		return Upstream{}
	}
	words, phase := phaseOf(e.Error())
	if phase == Unsent || phase == Cut || phase == Silent {
		return Upstream{Phase: phase}
	}
	if e.Info.Kind == KindRateLimitExceeded {
		words = strings.TrimPrefix(words, rateLimitExceeded)
	}
	if rest, ok := strings.CutPrefix(words, unexpectedStatus); ok {
		words = bodyOf(rest)
	}
	u := ofBody(words)
	u.Phase = phase
	return u
}

// OfCodex reports whether codex itself has failed, as far as its report shows: not the model endpoint, the account or
// the request.
func (e *Error) OfCodex() bool {
	_, incomplete := e.Incomplete()
	return e.Info.HTTPStatus == 0 && (e.Info.Kind == KindOther || e.Info.Kind == "") && !incomplete && !e.OfEndpoint()
}

// OfEndpoint reports whether a failure of any kind is certainly the endpoint's or the network's, by its text: a phase
// other than Refused, a status, or a body that is no plain text, as most 400s have. Plain words may be codex's own.
func (e *Error) OfEndpoint() bool {
	text := strings.TrimSpace(e.Error())
	if _, phase := phaseOf(text); phase != Refused || strings.HasPrefix(text, unexpectedStatus) {
		return true
	}
	return text != "" && strings.Contains("{[<", text[:1])
}

// WithoutWords is codex's text without the endpoint's words, which may quote the request: the phase, the status, the
// address and the request id. It is empty for a text that consists of the endpoint's words.
func (e *Error) WithoutWords() string {
	text := e.Error()
	_, phase := phaseOf(text)
	switch {
	case e.hasOwnSentence(), phase == Unsent, phase == Cut, phase == Silent:
		return text
	case phase == InStream:
		return strings.TrimSuffix(disconnected, ": ")
	case e.Info.Kind == KindRateLimitExceeded:
		return strings.TrimSuffix(rateLimitExceeded, ": ")
	case strings.HasPrefix(text, unexpectedStatus):
		return withoutBody(text)
	}
	return ""
}

// withoutBody cuts the body out of "unexpected status N REASON: BODY, url: …".
func withoutBody(text string) string {
	status, rest, _ := strings.Cut(text, ": ")
	if at := strings.LastIndex(rest, ", url: "); at >= 0 {
		return status + rest[at:]
	}
	return status
}

// hasOwnSentence reports whether codex has a sentence of its own in place of the endpoint's words.
func (e *Error) hasOwnSentence() bool {
	switch e.Info.Kind {
	case KindUsageLimitExceeded, KindSessionBudgetExceeded, KindServerOverloaded, KindContextWindowExceeded,
		KindInternalServerError, KindTooManyFailedAttempts:
		return true
	}
	return false
}

// bodyOf is the body in the rest of "unexpected status N REASON: BODY, url: …".
func bodyOf(rest string) string {
	_, body, _ := strings.Cut(rest, ": ")
	if at := strings.LastIndex(body, ", url: "); at >= 0 {
		body = body[:at]
	}
	return body
}

// undiscovered is codex's text if it cannot ask the accounts' server where the requests of a ChatGPT login go, which it
// does before the first turn.
var undiscovered = lazyregexp.New(`^workspace routing discovery (?:failed|timed out|cancelled)`)

// phaseOf cuts off codex's word for the phase.
func phaseOf(text string) (words string, _ Phase) {
	if rest, ok := strings.CutPrefix(text, "Connection failed: "); ok {
		return rest, Unsent
	}
	if undiscovered.MatchString(text) {
		return text, Unsent
	}
	rest, ok := strings.CutPrefix(text, disconnected)
	switch {
	case !ok:
		return text, Refused
	case strings.Contains(rest, "idle timeout waiting for"):
		return rest, Silent
	case strings.HasPrefix(rest, "error sending request"):
		return rest, Unsent
	case reasonOfCodex.MatchString(rest):
		return rest, Cut
	default:
		return rest, InStream
	}
}

// reasonOfCodex are the beginnings of codex's own reasons for a broken stream.
var reasonOfCodex = lazyregexp.New(`^(?:Transport error|network error|stream closed before|` +
	`websocket closed|failed to parse|error decoding|Incomplete response returned)|^$`)

// ofBody reads the forms of errors that endpoints have: OpenAI's {"error":{…}}, {"error":"…"},
// {"message":"…"} and FastAPI's {"detail":"…"}.
func ofBody(body string) Upstream {
	var form struct {
		Error           json.RawMessage
		Message, Detail json.RawMessage
	}
	switch body := strings.TrimSpace(body); {
	case strings.HasPrefix(body, "[{"): // Google's endpoint puts its object into a list
		return ofBody(strings.TrimSuffix(body[1:], "]"))
	case !strings.HasPrefix(body, "{"):
		return Upstream{Message: body}
	}
	if json.Unmarshal([]byte(body), &form) != nil {
		return Upstream{} // codex cuts a long body off
	}
	var inner struct{ Message, Code, Param json.RawMessage }
	_ = json.Unmarshal(form.Error, &inner) // of another form: the fields stay empty
	u := Upstream{Code: stringOf(inner.Code), Param: stringOf(inner.Param)}
	for _, words := range []json.RawMessage{inner.Message, form.Error, form.Message, form.Detail} {
		if u.Message = stringOf(words); u.Message != "" {
			break
		}
	}
	if json.Valid([]byte(u.Message)) { // of a gateway, with another body as its message
		within := ofBody(u.Message)
		u.Message, u.Code, u.Param = within.Message, cmp.Or(within.Code, u.Code), cmp.Or(within.Param, u.Param)
	}
	return u
}

// stringOf is a JSON string; empty for any other value.
func stringOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}
