package runner

import (
	"cmp"
	"fmt"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
	"codex-proxy/units"
)

// Limits are those that commands get without a request, and the highest that a request may have. A Maximum of 0 allows
// all; a Default of 0 is no limit.
type Limits struct {
	Default, Maximum wire.Limits
}

// fill returns the limits of a command: of each the command's own, or else the session's, or else the default.
func (l Limits) fill(own, session wire.Limits) (wire.Limits, error) {
	full := wire.Limits{
		Timeout:  cmp.Or(own.Timeout, session.Timeout, l.Default.Timeout),
		Grace:    cmp.Or(own.Grace, session.Grace, l.Default.Grace),
		CPUs:     cmp.Or(own.CPUs, session.CPUs, l.Default.CPUs),
		Memory:   cmp.Or(own.Memory, session.Memory, l.Default.Memory),
		Tasks:    cmp.Or(own.Tasks, session.Tasks, l.Default.Tasks),
		Output:   cmp.Or(own.Output, session.Output, l.Default.Output),
		FileSize: cmp.Or(own.FileSize, session.FileSize, l.Default.FileSize),
		Disk:     cmp.Or(own.Disk, session.Disk, l.Default.Disk),
	}
	return full, l.check(full)
}

// Check returns an error if the defaults are above the maximum.
func (l Limits) Check() error { return l.check(l.Default) }

func (l Limits) check(v wire.Limits) error {
	m := l.Maximum
	for _, limit := range []struct {
		name         string
		value, bound float64
		text         any
	}{
		{"timeout", float64(v.Timeout), float64(m.Timeout), time.Duration(m.Timeout)},
		{"grace", float64(v.Grace), float64(cmp.Or(m.Grace, wire.Duration(session.MaxGrace))), m.Grace},
		{"cpus", v.CPUs, m.CPUs, m.CPUs},
		{"memory", float64(v.Memory), float64(m.Memory), m.Memory},
		{"tasks", float64(v.Tasks), float64(m.Tasks), m.Tasks},
		{"output", float64(v.Output), float64(m.Output), m.Output},
		{"file_size", float64(v.FileSize), float64(m.FileSize), m.FileSize},
		{"disk", float64(v.Disk), float64(m.Disk), m.Disk},
	} {
		if limit.value < 0 || (limit.bound > 0 && limit.value > limit.bound) {
			return refuse(wire.InvalidRequest, fmt.Sprintf("use at most %v, or ask an administrator to raise it under [maximum] "+
				"in runner.toml", limit.text), "limits.%s is out of range", limit.name)
		}
	}
	return nil
}

// microseconds is a second of CPU time in the units of CPUQuotaPerSecUSec.
const microseconds = 1e6

// properties are the limits that systemd enforces, on the unit.
func properties(l wire.Limits) []units.Property {
	var all []units.Property
	for _, p := range []units.Property{
		{Name: "MemoryMax", Value: uint64(l.Memory)},
		{Name: "TasksMax", Value: uint64(l.Tasks)},
		{Name: "CPUQuotaPerSecUSec", Value: uint64(l.CPUs * microseconds)},
	} {
		if p.Value > 0 {
			all = append(all, p)
		}
	}
	return all
}
