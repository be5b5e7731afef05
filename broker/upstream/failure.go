package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
)

// Reason is why a model endpoint has not answered.
type Reason string

// The reasons.
const (
	Refused      Reason = "refused"      // nothing listens at its address
	Unresolvable Reason = "unresolvable" // its name has no address
	NoAnswer     Reason = "no-answer"    // its address sends nothing
	Certificate  Reason = "certificate"  // its certificate is not trusted
	TLS          Reason = "tls"          // the handshake of TLS fails, or hangs
	ViaProxy     Reason = "proxy"        // the proxy does not connect
	Cut          Reason = "cut"          // the connection ended before the answer
)

// Reasons are all reasons.
var Reasons = []Reason{Refused, Unresolvable, NoAnswer, Certificate, TLS, ViaProxy, Cut}

// Words is the reason in words for a client.
func (r Reason) Words() string { return words[r] }

var words = map[Reason]string{
	Refused:      "it refuses connections",
	Unresolvable: "its name has no address",
	NoAnswer:     "its address does not answer",
	Certificate:  "its certificate is not trusted",
	TLS:          "it does not finish the handshake of TLS",
	ViaProxy:     "the proxy does not connect to it",
	Cut:          "it ended the connection before its answer",
}

// Error is why a request has no answer.
type Error struct {
	Reason Reason
	Unsent bool // there was no connection
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return words[e.Reason] + ": " + e.Err.Error() }

// Unwrap is the error of the network.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf is the reason of an error of a request.
func ReasonOf(err error) Reason {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Reason
	}
	return Cut
}

// named gives an error of a request its reason. One that was cancelled stays as it is.
func named(err error, connected bool) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if connected {
		return &Error{Reason: Cut, Err: err}
	}
	return &Error{Reason: reasonOf(err), Unsent: true, Err: err}
}

func reasonOf(err error) Reason {
	var name *net.DNSError
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &untrusted), errors.As(err, &unknown):
		return Certificate
	case ofProxy(err):
		return ViaProxy
	case errors.As(err, &name):
		return Unresolvable
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, errSlow), errors.As(err, &op) && op.Op == "dial":
		return NoAnswer
	case strings.Contains(strings.ToLower(err.Error()), "tls"): // net/http exports no error for a handshake that hangs
		return TLS
	}
	return Cut
}
