package fetch

import "fmt"

// What can be wrong with an image, as clients see it in error.code.
const (
	CodeURL     = "invalid_image_url"       // not a URL that may be fetched
	CodeAddress = "image_address_forbidden" // its host is not on the public network
	CodeFailed  = "image_fetch_failed"      // not reachable, too slow, or not 200
	CodeSize    = "image_too_large"
	CodeType    = "image_type" // not an image of a known type
)

// What can be wrong with us: the same request may succeed later.
const (
	codeUnavailable = "image_fetcher_unavailable"
	codeOverloaded  = "overloaded"
)

// Error is why there is no image. It never tells what was found instead, nor
// which address a name led to.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

func wrong(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
