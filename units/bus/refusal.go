package bus

import (
	"errors"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// ErrUnanswered means that the bus or systemd was away, so that it is unknown whether systemd executes the request: at
// a restart of the bus, or while systemd executes itself anew. It decides nothing about the unit.
var ErrUnanswered = errors.New("systemd does not answer")

// ErrUnavailable means that systemd refused a request for a reason that may pass: polkit is away as well, or the host
// stops.
var ErrUnavailable = errors.New("systemd refuses for now")

// kind is an error with a text of its own that errors.Is finds to be another one.
type kind struct {
	error

	of error
}

func (k kind) Is(target error) bool { return target == k.of }

func (k kind) Unwrap() error { return k.error }

// Unanswered marks an error that is no answer.
func Unanswered(err error) error { return kind{err, ErrUnanswered} }

// Refusal explains an error of a call to systemd, and adds the likely remedy. No D-Bus type leaves the package with it.
func Refusal(err error) error {
	if err == nil {
		return nil
	}
	text := fmt.Errorf("systemd refuses: %v", err)
	switch {
	case Denied(err):
		return kind{fmt.Errorf("systemd refuses: %v (is the polkit rule of this package installed?)", err),
			ErrUnavailable}
	case away(err):
		return Unanswered(text)
	case final(err):
		return text
	}
	return kind{text, ErrUnavailable}
}

// Denied reports whether the bus or polkit refuses the caller.
func Denied(err error) bool {
	return IsError(err, "org.freedesktop.DBus.Error.AccessDenied",
		"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired")
}

// away reports that systemd did not answer: the call failed here, or the bus answered in its place.
func away(err error) bool {
	var answer dbus.Error
	return !errors.As(err, &answer) || IsError(err,
		"org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Disconnected",
		"org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.ServiceUnknown",
		"org.freedesktop.DBus.Error.Timeout", "org.freedesktop.DBus.Error.TimedOut")
}

// final reports that systemd would answer the same again: the answer is about the unit or the request. The start of a
// unit conflicts with the jobs of a host that stops.
func final(err error) bool {
	var answer dbus.Error
	if !errors.As(err, &answer) || IsError(err, ManagerName+".TransactionIsDestructive", ManagerName+".ShuttingDown") {
		return false
	}
	return strings.HasPrefix(answer.Name, ManagerName+".") || IsError(err,
		"org.freedesktop.DBus.Error.InvalidArgs", "org.freedesktop.DBus.Error.UnknownMethod",
		"org.freedesktop.DBus.Error.UnknownProperty", "org.freedesktop.DBus.Error.PropertyReadOnly")
}

// IsError reports whether err is a D-Bus error of one of these names.
func IsError(err error, names ...string) bool {
	var e dbus.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, name := range names {
		if e.Name == name {
			return true
		}
	}
	return false
}
