package wire

import (
	"fmt"
	"net/http"
	"strings"
)

// Code is the kind of an Error. The vocabulary is closed; clients decide by it, and by nothing else of an Error.
type Code string

// The codes, each with its HTTP status.
const (
	InvalidRequest     Code = "invalid_request"     // 400: a field is missing, unknown or out of range
	Forbidden          Code = "forbidden"           // 403: needs root or the group of administrators
	NotFound           Code = "not_found"           // 404: none that the caller may see
	Conflict           Code = "conflict"            // 409: not in this state
	TooLarge           Code = "too_large"           // 413: a body, or the caller's share of the disk
	UnknownRef         Code = "unknown_ref"         // 422: the repository has no such branch, tag or commit
	RepositoryFailed   Code = "repository_failed"   // 422: it cannot be fetched or read
	PatchInvalid       Code = "patch_invalid"       // 422: it is no patch, or changes more than files of the tree
	EnvironmentUnknown Code = "environment_unknown" // 422: no such provider
	QueueFull          Code = "queue_full"          // 429: retry later
	TooMany            Code = "too_many"            // 429: the caller's share of the service is in use
	Internal           Code = "internal"            // 500: a fault of the daemon; its journal has more
	Unavailable        Code = "unavailable"         // 503: systemd does not answer, or the daemon stops
)

// statuses has every Code.
var statuses = map[Code]int{
	InvalidRequest: http.StatusBadRequest, Forbidden: http.StatusForbidden, NotFound: http.StatusNotFound,
	Conflict: http.StatusConflict, TooLarge: http.StatusRequestEntityTooLarge,
	UnknownRef: http.StatusUnprocessableEntity, RepositoryFailed: http.StatusUnprocessableEntity,
	PatchInvalid: http.StatusUnprocessableEntity, EnvironmentUnknown: http.StatusUnprocessableEntity,
	QueueFull: http.StatusTooManyRequests, TooMany: http.StatusTooManyRequests, Internal: http.StatusInternalServerError,
	Unavailable: http.StatusServiceUnavailable,
}

// Status is the HTTP status of the code: 500 for one that is not in the vocabulary.
func (c Code) Status() int {
	if status, ok := statuses[c]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Error is why a request failed. It is the member "error" of the body of every answer with a status of 400 or more.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // for people: the fault
	Remedy  string `json:"remedy"`  // for people: how to mend it
}

// Error is the message and the remedy.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + ": " + e.Remedy
}

// Refuse returns the error of a request.
func Refuse(code Code, remedy, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// RefuseAs is Refuse for an error with the text "fault: remedy".
func RefuseAs(code Code, err error) error {
	message, remedy, _ := strings.Cut(err.Error(), ": ")
	return &Error{Code: code, Message: message, Remedy: remedy}
}

// Failure is the body of an answer with a status of 400 or more.
type Failure struct {
	Error *Error `json:"error"`
}
