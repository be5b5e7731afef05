package openai

import (
	"net/http"
	"strings"
	"time"
)

// maxQuoted bounds a string from elsewhere in a message.
const maxQuoted = 500

// Bounded is s as a message may quote it: cut off after 500 bytes.
func Bounded(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

// TooMany is a 429: a limit was met, and may not be after retryAfter.
func TooMany(kind, code, message string, retryAfter time.Duration) *Error {
	return &Error{Status: http.StatusTooManyRequests, Type: kind, Code: code, Message: message, RetryAfter: retryAfter}
}

// TooLarge is a 413.
func TooLarge(param, message string) *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: TypeInvalidRequest, Code: "request_too_large",
		Param: param, Message: message,
	}
}

// ModelNotFound is a 404 for the parameter model.
func ModelNotFound(message string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: "model_not_found", Param: "model",
		Message: message,
	}
}
