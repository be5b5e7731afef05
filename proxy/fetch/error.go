package fetch

import "fmt"

// The faults of an image, as clients see them in error.code.
const (
	CodeURL     = "invalid_image_url"       // not a URL that may be fetched
	CodeAddress = "image_address_forbidden" // its host is not on the public network
	CodeFailed  = "image_fetch_failed"      // not reachable, too slow, or not 200
	CodeSize    = "image_too_large"
	CodeType    = "image_type" // not an image of a known type
)

// The faults of the service: the same request may succeed later.
const (
	codeUnavailable = "image_fetcher_unavailable"
	codeOverloaded  = "overloaded"
)

// Error is the reason why there is no image. It never reveals the content that was
// found instead, nor the address of a name.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

func wrong(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
