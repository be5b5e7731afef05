package openai

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"
)

// Error types of the envelope, as the OpenAI reference names them, and two more, TypeBackend and TypeTimeout, for
// faults of the supervised workers.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeRateLimit      = "rate_limit_error"
	TypeQuota          = "insufficient_quota"
	TypeServer         = "server_error"
	TypeBackend        = "backend_unavailable"
	TypeTimeout        = "timeout_error"
)

// Error is an error that a client sees: an HTTP status and the envelope
// {"error":{"message","type","param","code"}}. It is immutable once made.
type Error struct {
	Status     int           // HTTP status
	Type       string        // one of the Type constants
	Code       string        // one word per cause
	Param      string        // the field at fault; empty if none
	Message    string        // the cause and the remedy
	RetryAfter time.Duration // whole seconds for Retry-After; 0 means none
	Header     http.Header   // further response headers; nil means none

	// UpstreamCode is the code of the model endpoint, which the client receives in place of Code. The journal and the
	// metrics have Code, which has few values.
	UpstreamCode string
}

// Error is the message alone, for logs.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Retryable reports whether the same request may succeed later by itself.
func (e *Error) Retryable() bool { return e.Status == http.StatusServiceUnavailable }

// ErrorBody is the content of the envelope.
type ErrorBody struct {
	Message   string  `json:"message"`
	Type      string  `json:"type"`
	Param     *string `json:"param"`
	Code      string  `json:"code"`
	Retryable bool    `json:"retryable,omitempty"`
}

// Body is the content of the envelope.
func (e *Error) Body() ErrorBody {
	b := ErrorBody{Message: e.Message, Type: e.Type, Code: cmp.Or(e.UpstreamCode, e.Code), Retryable: e.Retryable()}
	if e.Param != "" {
		b.Param = &e.Param
	}
	return b
}

// MarshalJSON encodes the envelope.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Error ErrorBody `json:"error"`
	}{e.Body()})
}

// Invalid is a 400 that names the field at fault.
func Invalid(code, param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: code, Param: param, Message: message}
}

// Unavailable is a 503 that the client may repeat after retryAfter.
func Unavailable(code, message string, retryAfter time.Duration) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: TypeBackend, Code: code, Message: message,
		RetryAfter: retryAfter}
}

// Timeout is a 504.
func Timeout(code, message string) *Error {
	return &Error{Status: http.StatusGatewayTimeout, Type: TypeTimeout, Code: code, Message: message}
}
