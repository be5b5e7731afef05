package openai

import (
	"net/http"
	"time"
)

// Unsupported is a 400 for a parameter, or a value of one, that is not served.
func Unsupported(param, message string) *Error {
	return Invalid("unsupported_parameter", param, message)
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
