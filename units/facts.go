package units

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const unitIface = "org.freedesktop.systemd1.Unit"

// property is one that we read, with its type in org.freedesktop.systemd1(5).
// A value of another type is ignored.
type property struct{ iface, signature string }

func (p property) holds(v dbus.Variant) bool { return v.Signature().String() == p.signature }

var unitProperties = map[string]property{
	"LoadState":            {unitIface, "s"},
	"ActiveState":          {unitIface, "s"},
	"SubState":             {unitIface, "s"},
	"InvocationID":         {unitIface, "ay"},
	"Job":                  {unitIface, "(uo)"},
	"StateChangeTimestamp": {unitIface, "t"},

	"InactiveExitTimestamp": {unitIface, "t"},

	"FragmentPath": {unitIface, "s"},
	"DropInPaths":  {unitIface, "as"},
}

const serviceIface = "org.freedesktop.systemd1.Service"

var serviceProperties = map[string]property{
	"Result":                {serviceIface, "s"},
	"StatusText":            {serviceIface, "s"},
	"StatusErrno":           {serviceIface, "i"},
	"MainPID":               {serviceIface, "u"},
	"NRestarts":             {serviceIface, "u"},
	"ExecMainCode":          {serviceIface, "i"},
	"ExecMainStatus":        {serviceIface, "i"},
	"ExecMainExitTimestamp": {serviceIface, "t"},
	"RestartUSec":           {serviceIface, "t"},
	"RestartUSecNext":       {serviceIface, "t"},
}

// propertiesOf returns the properties of a State for a unit of that type.
func propertiesOf(unit string) map[string]property {
	all := make(map[string]property)
	for name, p := range unitProperties {
		all[name] = p
	}
	switch {
	case strings.HasSuffix(unit, ".service"):
		for name, p := range serviceProperties {
			all[name] = p
		}
	case strings.HasSuffix(unit, ".socket"):
		all["Result"] = property{"org.freedesktop.systemd1.Socket", "s"}
	}
	return all
}

// fact is a property's value and its place on the wire. A nil value is not known
// yet, a missing one doesn't exist on this systemd.
type fact struct {
	value any
	seq   dbus.Sequence
}

type missing struct{}

// facts are the known properties of one unit. Replies and signals arrive on
// different paths; the sequence on the wire decides which is newer.
type facts map[string]fact

func (f facts) learn(name string, value any, seq dbus.Sequence) {
	if seq >= f[name].seq {
		f[name] = fact{value, seq}
	}
}

func (f facts) text(name string) string {
	s, _ := f[name].value.(string)
	return s
}

func (f facts) uint32(name string) uint32 {
	n, _ := f[name].value.(uint32)
	return n
}

func (f facts) int32(name string) int32 {
	n, _ := f[name].value.(int32)
	return n
}

// time reads microseconds since the epoch; 0 is never.
func (f facts) time(name string) time.Time {
	usec, _ := f[name].value.(uint64)
	if usec == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(usec))
}

func (f facts) state(unit string) State {
	id, _ := f["InvocationID"].value.([]byte)
	s := State{
		Unit:           unit,
		LoadState:      f.text("LoadState"),
		ActiveState:    f.text("ActiveState"),
		SubState:       f.text("SubState"),
		Result:         f.text("Result"),
		InvocationID:   hex.EncodeToString(id),
		StatusText:     f.text("StatusText"),
		StatusErrno:    f.int32("StatusErrno"),
		MainPID:        f.uint32("MainPID"),
		NRestarts:      f.uint32("NRestarts"),
		ExecMainCode:   f.int32("ExecMainCode"),
		ExecMainStatus: f.int32("ExecMainStatus"),
		ExecMainExitAt: f.time("ExecMainExitTimestamp"),
		StateChangedAt: f.time("StateChangeTimestamp"),
		LeftInactiveAt: f.time("InactiveExitTimestamp"),
		JobPending:     f.job() != 0,
	}
	if f["LoadState"].value == (missing{}) { // systemd has no object for the name
		s.LoadState = "not-found"
	}
	if delay, ok := f.restartDelay(); ok && !f.waitingSince().IsZero() {
		s.NextRestartAt = s.StateChangedAt.Add(delay)
	}
	if until, held := f.held(); held {
		s.HeldBack, s.NextRestartAt = true, until
	}
	return s
}

func (f facts) job() uint32 {
	job, _ := f["Job"].value.([]any)
	if len(job) == 0 {
		return 0
	}
	id, _ := job[0].(uint32)
	return id
}

// waitingSince returns when the unit began to wait for its automatic restart, zero
// if it doesn't wait. After the wait systemd first queues the job and counts the
// restart, and leaves the state auto-restart a moment later.
func (f facts) waitingSince() time.Time {
	if f.text("SubState") != "auto-restart" || f.job() != 0 {
		return time.Time{}
	}
	return f.time("StateChangeTimestamp")
}

// mayRestart reports an end that may or may not be final. Before systemd 254, which
// brought failed-before-auto-restart, dead-before-auto-restart and RestartUSecNext, a
// unit is failed/failed or, after a clean exit, inactive/dead for an instant before it
// reaches auto-restart.
func (f facts) mayRestart() bool {
	sub := f.text("SubState")
	return f["RestartUSecNext"].value == (missing{}) && (sub == "failed" || sub == "dead")
}

// restartDelay is RestartUSecNext (systemd 254, where the delay grows with
// RestartSteps=), or else the delay that the unit's own process waits: see Holdback.
func (f facts) restartDelay() (time.Duration, bool) {
	value := f["RestartUSecNext"].value
	if value == (missing{}) {
		return f.restartDelays().before(f.uint32("NRestarts") + 1), true
	}
	usec, ok := value.(uint64)
	return time.Duration(usec) * time.Microsecond, ok
}

// restartDelays reads the unit's files: a systemd before 254 reads RestartSec= alone.
func (f facts) restartDelays() restartDelays {
	files := append([]string{f.text("FragmentPath")}, f.texts("DropInPaths")...)
	return restartDelaysIn(files, f.duration("RestartUSec"))
}
