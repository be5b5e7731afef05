package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// Advice for Retry-After: codex does not pass on the upstream's own.
const (
	retryUpstream  = 5 * time.Second
	retryRateLimit = 10 * time.Second
	retryQuota     = time.Minute
)

// turnError is the error that a client receives for a failed turn, by codex's
// codexErrorInfo. The message is the upstream's own, bounded: it is about the client's own
// request. history is the name of the field with the conversation.
func turnError(e *appserver.TurnError, history string) *openai.Error {
	message := openai.Bounded(e.Error())
	switch e.Info.Kind {
	case appserver.ErrorUsageLimitExceeded, appserver.ErrorSessionBudgetExceeded:
		return openai.TooMany(openai.TypeQuota, "usage_limit_reached", message, retryQuota)
	case appserver.ErrorRateLimitExceeded:
		return openai.TooMany(openai.TypeRateLimit, "rate_limited", message, retryRateLimit)
	case appserver.ErrorServerOverloaded, appserver.ErrorPolicyCapacityUnavailable:
		return openai.Unavailable("overloaded", message, retryUpstream)
	case appserver.ErrorContextWindowExceeded:
		return openai.Invalid("context_length_exceeded", history, message)
	case appserver.ErrorCyberPolicy:
		return openai.Invalid("content_policy_violation", history, message)
	case appserver.ErrorBadRequest:
		return openai.Invalid("upstream_rejected", "", message)
	case appserver.ErrorModelNotFound:
		return openai.ModelNotFound(message)
	case appserver.ErrorUnauthorized:
		return upstreamUnauthorized()
	case appserver.ErrorOther:
		return otherError(message)
	default:
		return upstreamStatus(e.Info.HTTPStatus, message)
	}
}

// upstreamStatus maps the status of the model endpoint. A status that the same request
// would meet again is the client's error; the others may be temporary.
func upstreamStatus(status int, message string) *openai.Error {
	switch status {
	case http.StatusTooManyRequests:
		return openai.TooMany(openai.TypeRateLimit, "rate_limited", message, retryRateLimit)
	case http.StatusUnauthorized, http.StatusForbidden:
		return upstreamUnauthorized()
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return openai.Invalid("upstream_rejected", "", message)
	default:
		return openai.Unavailable("upstream_error", message, retryUpstream)
	}
}

// otherError distinguishes a broken stream from a refusal: codex calls both "other".
func otherError(message string) *openai.Error {
	switch {
	case strings.Contains(message, "idle timeout waiting for"):
		return openai.Timeout("idle_timeout", "the model endpoint fell silent: "+message)
	case strings.HasPrefix(message, "stream disconnected before completion"):
		return openai.Unavailable("upstream_error", message, retryUpstream)
	default:
		return openai.Invalid("upstream_rejected", "", message)
	}
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

func upstreamUnauthorized() *openai.Error {
	return openai.Unavailable("upstream_unauthorized",
		"the model endpoint does not accept the worker's account; the operator has to log the worker in again",
		retryQuota)
}

// rpcError is a request that the worker refused. Its JSON-RPC code never
// leaves the proxy.
func rpcError(e *appserver.RPCError) *openai.Error {
	switch {
	case e.Code == appserver.CodeOverloaded:
		return openai.Unavailable("overloaded", "the worker is overloaded; send the request again", time.Second)
	case e.ShuttingDown():
		return openai.Unavailable("draining", "the worker is stopping; send the request again", time.Second)
	case e.Code == appserver.CodeInternalError:
		return openai.Unavailable("worker_error", "the worker failed: "+openai.Bounded(e.Message), time.Second)
	default:
		return openai.Invalid("worker_rejected", "", "the worker refused the request: "+openai.Bounded(e.Message))
	}
}
