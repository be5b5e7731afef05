package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"codex-proxy/proxy/openai"
)

// StatusOverloaded is the status of a temporary error: the libraries of Anthropic send the request again.
const StatusOverloaded = 529

// The types of errors.
// Source: https://docs.anthropic.com/en/api/errors.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeNotFound       = "not_found_error"
	TypeTooLarge       = "request_too_large"
	TypeRateLimit      = "rate_limit_error"
	TypeAPI            = "api_error"
	TypeTimeout        = "timeout_error"
	TypeOverloaded     = "overloaded_error"
)

// Error is an error that a client sees: an HTTP status and the envelope
// {"type":"error","error":{"type","message"},"request_id"}. It is the event `error` of a
// stream, too.
type Error struct {
	Status    int // HTTP status
	Type      string
	Message   string // the cause and the remedy
	RequestID string

	details *errorDetails
}

// ErrorOf is an error of the other APIs in Anthropic's form.
func ErrorOf(e *openai.Error, requestID string) Error {
	status, kind := kindOf(e.Status)
	failed := Error{Status: status, Type: kind, Message: words(e), RequestID: requestID}
	if e.Code == codeThread {
		failed.details = &errorDetails{Code: e.Code}
	}
	return failed
}

// codeThread is the code of an error by which the tool runner of Anthropic's libraries notices that it has to send the
// whole conversation with each request.
const codeThread = "thread_unsupported_request"

// errorDetails are the details of an error that programs recognise.
type errorDetails struct {
	Code string `json:"error_code"`
}

// kindOf is the status and the type for a status of the other APIs. Anthropic's API has one state for a service that is
// unavailable for a while: overloaded.
func kindOf(status int) (int, string) {
	switch status {
	case http.StatusServiceUnavailable:
		return StatusOverloaded, TypeOverloaded
	case http.StatusUnauthorized:
		return status, TypeAuthentication
	case http.StatusForbidden:
		return status, TypePermission
	case http.StatusNotFound:
		return status, TypeNotFound
	case http.StatusRequestEntityTooLarge:
		return status, TypeTooLarge
	case http.StatusTooManyRequests:
		return status, TypeRateLimit
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return status, TypeTimeout
	}
	if status >= http.StatusInternalServerError {
		return status, TypeAPI
	}
	return status, TypeInvalidRequest
}

// tooLong are Anthropic's words for a conversation beyond the context window. Clients compact
// the conversation by them.
const tooLong = "prompt is too long"

// words are the message. Anthropic's envelope has no field for the parameter at fault, which
// most messages name.
func words(e *openai.Error) string {
	if e.Code == openai.CodeContextLength && !strings.Contains(e.Message, tooLong) {
		return tooLong + ": " + e.Message
	}
	return e.Message
}

// Error is the message alone, for logs.
func (e Error) Error() string { return e.Type + ": " + e.Message }

// MarshalJSON encodes the envelope.
func (e Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Error     errorBody `json:"error"`
		RequestID string    `json:"request_id"`
	}{"error", errorBody{e.Type, e.Message, e.details}, e.RequestID})
}

// errorBody is the content of the envelope.
type errorBody struct {
	Type    string        `json:"type"`
	Message string        `json:"message"`
	Details *errorDetails `json:"details,omitempty"`
}
