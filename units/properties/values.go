package properties

import (
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// fact is a property's value and its place on the wire. A nil value is not known
// yet, a missing one doesn't exist on this systemd.
type fact struct {
	value any
	seq   dbus.Sequence
}

type missing struct{}

// Values are the known properties of one unit. Replies and signals arrive on
// different paths; the sequence on the wire decides which is newer.
type Values map[string]fact

// Learn applies a value that a signal brought.
func (v Values) Learn(name string, value any, seq dbus.Sequence) {
	if seq >= v[name].seq {
		v[name] = fact{value, seq}
	}
}

// LearnAll applies the replies to a Read.
func (v Values) LearnAll(answers []Answer) {
	for _, a := range answers {
		v.Learn(a.name, a.value, a.seq)
	}
}

// Missing reports that this systemd has no such property, or no object for the unit.
func (v Values) Missing(name string) bool { return v[name].value == (missing{}) }

// Value returns the value of a property that has this type.
func Value[T any](v Values, name string) (T, bool) {
	value, ok := v[name].value.(T)
	return value, ok
}

// Text is the value of a property of type s.
func (v Values) Text(name string) string {
	s, _ := Value[string](v, name)
	return s
}

// Uint32 is the value of a property of type u.
func (v Values) Uint32(name string) uint32 {
	n, _ := Value[uint32](v, name)
	return n
}

// Int32 is the value of a property of type i.
func (v Values) Int32(name string) int32 {
	n, _ := Value[int32](v, name)
	return n
}

// Time reads microseconds since the epoch; 0 is never.
func (v Values) Time(name string) time.Time {
	usec, _ := v[name].value.(uint64)
	if usec == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(usec))
}

// Texts is the value of a property of type as.
func (v Values) Texts(name string) []string {
	list, _ := v[name].value.([]string)
	return list
}

// Duration reads microseconds; 0 also for an infinite time.
func (v Values) Duration(name string) time.Duration {
	usec, _ := v[name].value.(uint64)
	if usec == unset {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// unset is systemd's "infinity", the value of some times of a unit that never ran.
const unset = 1<<64 - 1

// Age is the time since a timestamp of CLOCK_MONOTONIC; 0 for one never set.
func (v Values) Age(name string) time.Duration {
	at := v.Duration(name)
	var now unix.Timespec
	if at == 0 || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return max(0, time.Duration(now.Nano())-at)
}
