package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// Advice for Retry-After where the upstream's own has not come through codex.
const (
	retryUpstream  = 5 * time.Second
	retryRateLimit = 10 * time.Second
	retryQuota     = time.Minute
)

// turnError is the error that a client sees for a failed turn, by codex's
// codexErrorInfo. The message is the upstream's own, bounded: it speaks of the
// client's own request, whose history is in a field of that name.
func turnError(e *appserver.TurnError, history string) *openai.Error {
	message := bounded(e.Error())
	switch e.Info.Kind {
	case appserver.ErrorUsageLimitExceeded, appserver.ErrorSessionBudgetExceeded:
		return tooMany(openai.TypeQuota, "usage_limit_reached", message, retryQuota)
	case appserver.ErrorRateLimitExceeded:
		return tooMany(openai.TypeRateLimit, "rate_limited", message, retryRateLimit)
	case appserver.ErrorServerOverloaded, appserver.ErrorPolicyCapacityUnavailable:
		return openai.Unavailable("overloaded", message, retryUpstream)
	case appserver.ErrorContextWindowExceeded:
		return openai.Invalid("context_length_exceeded", history, message)
	case appserver.ErrorCyberPolicy:
		return openai.Invalid("content_policy_violation", history, message)
	case appserver.ErrorBadRequest:
		return openai.Invalid("upstream_rejected", "", message)
	case appserver.ErrorModelNotFound:
		return modelNotFound(message)
	case appserver.ErrorUnauthorized:
		return upstreamUnauthorized()
	case appserver.ErrorOther:
		return otherError(message)
	default:
		return upstreamStatus(e.Info.HTTPStatus, message)
	}
}

// upstreamStatus maps what the model endpoint answered. Statuses that no other
// request would change are the client's; the rest may pass.
func upstreamStatus(status int, message string) *openai.Error {
	switch status {
	case http.StatusTooManyRequests:
		return tooMany(openai.TypeRateLimit, "rate_limited", message, retryRateLimit)
	case http.StatusUnauthorized, http.StatusForbidden:
		return upstreamUnauthorized()
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return openai.Invalid("upstream_rejected", "", message)
	default:
		return openai.Unavailable("upstream_error", message, retryUpstream)
	}
}

// otherError tells a broken stream from a refusal: codex calls both "other".
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

func tooMany(kind, code, message string, retryAfter time.Duration) *openai.Error {
	return &openai.Error{Status: http.StatusTooManyRequests, Type: kind, Code: code, Message: message, RetryAfter: retryAfter}
}

// imagesTimeout forbids another try, which would take as long again: OpenAI's
// libraries would send the request twice more.
func imagesTimeout(param string) *openai.Error {
	e := openai.Timeout("image_timeout",
		fmt.Sprintf("the worker did not decode the images within %s; send fewer, or scale them down", startTimeout))
	e.Param, e.Header = param, http.Header{"X-Should-Retry": {"false"}}
	return e
}

func tooLarge(param, message string) *openai.Error {
	return &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "request_too_large", Param: param, Message: message}
}

func upstreamUnauthorized() *openai.Error {
	return openai.Unavailable("upstream_unauthorized", "the model endpoint does not accept the worker's account; the operator has to log the worker in again", retryQuota)
}

func modelNotFound(message string) *openai.Error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "model_not_found", Param: "model", Message: message}
}

func bounded(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
