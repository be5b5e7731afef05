// Package units reports the states of our units, and asks systemd to start and
// stop them, over the system bus (org.freedesktop.systemd1(5)).
package units

import "codex-proxy/units/bus"

// The errors of calls to systemd.
var (
	// ErrNoBus means that this machine has no system bus, as most containers.
	ErrNoBus = bus.ErrNoBus
	// ErrUnanswered means that it is unknown whether systemd executes the request.
	ErrUnanswered = bus.ErrUnanswered
	// ErrUnavailable means that systemd refused a request for a reason that may pass.
	ErrUnavailable = bus.ErrUnavailable
)
