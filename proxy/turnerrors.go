package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// Advice for Retry-After: codex drops the header of the model endpoint. Only a time in the endpoint's words remains.
const (
	retryUpstream  = 5 * time.Second
	retryRateLimit = 10 * time.Second
	retryQuota     = time.Minute
)

// turnError is the error that a client receives for a failed turn, by codex's codexErrorInfo. The message is the
// model endpoint's own where codex passes it on. history is the name of the field with the conversation.
func turnError(e *turnerror.Error, history string) *openai.Error {
	upstream := e.Upstream()
	words := openai.CleanWords(upstream.Message)
	switch {
	case e.PlanLacksModel():
		return openai.ModelNotFound("the plan of the worker's account does not include this model; ask for another one")
	case e.Account().Rotates():
		return usageLimit(cmp.Or(words, resetAt(e)))
	}
	switch e.Info.Kind {
	case turnerror.KindSessionBudgetExceeded:
		return usageLimit(resetAt(e))
	case turnerror.KindRateLimitExceeded:
		return rateLimited(words)
	case turnerror.KindServerOverloaded, turnerror.KindPolicyCapacityUnavailable, turnerror.KindFlexUnavailable:
		return openai.Unavailable("overloaded", cmp.Or(words, "the model endpoint is overloaded, or the model is at "+
			"capacity; send the request again"), retryUpstream)
	case turnerror.KindContextWindowExceeded:
		return openai.ContextTooLong(history, words)
	case turnerror.KindCyberPolicy, turnerror.KindBioPolicy, turnerror.KindMisalignmentPolicy:
		return contentPolicy(history, words)
	case turnerror.KindInferenceHookDenied:
		return contentPolicy(history, cmp.Or(words, "the workspace of the worker's account denies the request"))
	case turnerror.KindTooManyDenials:
		return openai.Invalid("upstream_rejected", "", cmp.Or(words,
			"codex denied too many actions of the model in this turn"))
	case turnerror.KindModelNotFound:
		return openai.ModelNotFound(cmp.Or(words, "the model endpoint does not have the model"))
	case turnerror.KindUnauthorized:
		return upstreamUnauthorized()
	case turnerror.KindBadRequest, turnerror.KindOther:
		return refusedOrCut(upstream, words, history)
	case "", turnerror.KindInternalServerError, turnerror.KindTooManyFailedAttempts, turnerror.KindStreamDisconnected,
		turnerror.KindConnectionFailed, turnerror.KindStreamConnectionFailed:
		return upstreamStatus(e.Info.HTTPStatus, words)
	}
	return unknownFailure(e.Info, words)
}

// unknownFailure is an error of a kind that a newer codex has. A request that was refused is refused again, and
// libraries repeat requests after temporary errors: so it is temporary only by a status of the model endpoint.
func unknownFailure(info turnerror.Info, words string) *openai.Error {
	if info.HTTPStatus != 0 {
		return upstreamStatus(info.HTTPStatus, words)
	}
	return openai.Invalid("upstream_rejected", "", cmp.Or(words, "codex ended the turn: "+openai.Bounded(info.Kind)))
}

// maxDetail bounds the text of codex in the journal.
const maxDetail = 2000

// detail is codex's text for the journal, with addresses and ids. It has the endpoint's words if they are about the
// worker's account: they are for the operator. Others may quote the request, and the client has them.
func detail(e *turnerror.Error, answer *openai.Error) string {
	text := e.WithoutWords()
	if answer.Code == codeUnauthorized {
		text = e.Error()
	}
	text = openai.MaskSecrets(text)
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}

// upstreamStatus maps the status of the model endpoint. A status that the same request
// would meet again is the client's error; the others may be temporary.
func upstreamStatus(status int, words string) *openai.Error {
	switch {
	case status == http.StatusTooManyRequests:
		return rateLimited(words)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return upstreamUnauthorized()
	case status == http.StatusNotFound:
		return upstreamNotFound(words)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status < http.StatusBadRequest, status >= http.StatusInternalServerError:
		return openai.Unavailable("upstream_error", cmp.Or(words, unavailableWords(status)), retryUpstream)
	default:
		return openai.Invalid("upstream_rejected", "", cmp.Or(words, statusWords(status)))
	}
}

func unavailableWords(status int) string {
	if status == 0 {
		return "the model endpoint cannot be reached, or failed; send the request again"
	}
	return statusWords(status) + "; send the request again"
}

func statusWords(status int) string {
	return strings.TrimSpace(fmt.Sprintf("the model endpoint answers with %d %s", status, http.StatusText(status)))
}

// refusedOrCut distinguishes a refusal from a broken stream: codex calls both "other".
func refusedOrCut(u turnerror.Upstream, words, history string) *openai.Error {
	switch u.Phase {
	case turnerror.Silent:
		return openai.Timeout("idle_timeout", "the model endpoint sent nothing for too long")
	case turnerror.Unsent:
		return openai.Unavailable("upstream_error",
			"the model endpoint cannot be reached; send the request again", retryUpstream)
	case turnerror.Cut:
		return openai.Unavailable("upstream_error",
			"the model endpoint broke the answer off; send the request again", retryUpstream)
	}
	switch {
	case contextWords.MatchString(words):
		return openai.ContextTooLong(history, words)
	case policyWords.MatchString(words):
		return contentPolicy(history, words)
	case u.Phase == turnerror.InStream:
		return openai.Unavailable("upstream_error", cmp.Or(words, "the model endpoint reports an error in its answer; "+
			"send the request again"), retryUpstream)
	}
	e := openai.Invalid("upstream_rejected", openai.CleanWords(u.Param),
		cmp.Or(words, statusWords(http.StatusBadRequest)))
	if len(u.Code) <= 64 && codeForm.MatchString(u.Code) {
		e.UpstreamCode = u.Code
	}
	return e
}

// codex drops the code of an error in the stream, and of a 400 with a body that is not JSON or has a code that it
// knows. The words of OpenAI, and of the usual servers for open models, remain.
var (
	contextWords = lazyregexp.New(`(?i)maximum context length|exceeds the (?:model's )?context window|` +
		`exceeds the available context size|input tokens exceed the configured limit|context_length_exceeded`)
	policyWords = lazyregexp.New(`(?i)content[ _](?:policy|management policy)|safety (?:system|reasons)|` +
		`violating our usage policy`)
	codeForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.-]*$`)
)

func contentPolicy(history, words string) *openai.Error {
	return openai.Invalid("content_policy_violation", history, cmp.Or(words, "the model endpoint refuses the content"))
}

// usageLimit is a limit of the worker's account.
func usageLimit(words string) *openai.Error {
	return openai.QuotaExceeded("usage_limit_reached",
		cmp.Or(words, "the worker's account has reached its usage limit"), retryQuota)
}

// upstreamNotFound is a 404 that names no model: a wrong base_url of the worker's provider, or a server without a code
// for a missing model.
func upstreamNotFound(words string) *openai.Error {
	e := openai.Invalid("upstream_not_found", "", cmp.Or(words, statusWords(http.StatusNotFound)))
	e.Status = http.StatusNotFound
	return e
}

func rateLimited(words string) *openai.Error {
	return openai.RateLimited(cmp.Or(words, "the model endpoint limits the rate of requests"),
		retryIn(words, retryRateLimit))
}

// imagesTimeout forbids another attempt, which would take as long again: OpenAI's
// libraries would send the request twice more.
func imagesTimeout(param string) *openai.Error {
	e := openai.Timeout("image_timeout",
		fmt.Sprintf("the worker did not decode the images within %s; send fewer, or scale them down",
			turn.StartTimeout))
	e.Param, e.Header = param, http.Header{"X-Should-Retry": {"false"}}
	return e
}

// codeUnauthorized is the code of an error that only the operator can mend.
const codeUnauthorized = "upstream_unauthorized"

func upstreamUnauthorized() *openai.Error {
	return openai.Unavailable(codeUnauthorized,
		"the model endpoint does not accept the worker's account; the operator has to log the worker in again",
		retryQuota)
}

// rpcError is a request that the worker refused. Its JSON-RPC code never
// leaves the proxy.
func rpcError(e *rpc.Error) *openai.Error {
	switch {
	case e.Code == rpc.CodeOverloaded:
		return openai.Unavailable("overloaded", "the worker is overloaded; send the request again", time.Second)
	case e.ShuttingDown():
		return openai.Unavailable("draining", "the worker is stopping; send the request again", time.Second)
	case e.Code == rpc.CodeInternalError:
		return openai.Unavailable("worker_error", "the worker failed: "+openai.Bounded(e.Message), time.Second)
	default:
		return openai.Invalid("worker_rejected", "", "the worker refused the request: "+openai.Bounded(e.Message))
	}
}
