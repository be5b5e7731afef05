package check

import "strconv"

// Status is the status of a gRPC call that failed.
type Status struct {
	Code    string // a number
	Message string // of the server; may be empty
}

// The codes that checks distinguish: google.golang.org/grpc/codes.
const (
	notFound      = "5"
	unimplemented = "12"
)

// codeNames are in the order of google.golang.org/grpc/codes.
var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// Name is the code in words, such as UNAVAILABLE.
func (s *Status) Name() string {
	if n, err := strconv.ParseUint(s.Code, 10, 32); err == nil && n < uint64(len(codeNames)) {
		return codeNames[n]
	}
	return "status " + strconv.Quote(s.Code)
}

// Error implements error.
func (s *Status) Error() string {
	if s.Message == "" {
		return s.Name()
	}
	return s.Name() + ": " + s.Message
}
