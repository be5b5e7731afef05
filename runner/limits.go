package runner

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
)

// Limits has the limits of commands without a request, and the highest ones of a request. A Maximum of 0 allows all; a
// Default of 0 is no limit.
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

// The least limits with which the main process of a session can still start a command and report its end. A zero is no
// limit.
const (
	leastCPUs   = 0.01
	leastMemory = 16 << 20
	leastTasks  = 16
)

func (l Limits) check(v wire.Limits) error {
	m := l.Maximum
	m.Grace = cmp.Or(m.Grace, wire.Duration(session.MaxGrace))
	for _, limit := range []struct {
		name                string
		value, least, bound float64
		text                func(float64) string
	}{
		{"timeout", float64(v.Timeout), 0, float64(m.Timeout), duration},
		{"grace", float64(v.Grace), 0, float64(m.Grace), duration},
		{"cpus", v.CPUs, leastCPUs, m.CPUs, number},
		{"memory", float64(v.Memory), leastMemory, float64(m.Memory), inBytes},
		{"tasks", float64(v.Tasks), leastTasks, float64(m.Tasks), number},
		{"output", float64(v.Output), 0, float64(m.Output), inBytes},
		{"file_size", float64(v.FileSize), 0, float64(m.FileSize), inBytes},
		{"disk", float64(v.Disk), 0, float64(m.Disk), inBytes},
	} {
		switch {
		case limit.value != 0 && limit.value < limit.least || limit.value < 0:
			return wire.Refuse(wire.InvalidRequest, "use at least "+limit.text(limit.least),
				"limits.%s is out of range",
				limit.name)
		case limit.bound > 0 && limit.value > limit.bound:
			return wire.Refuse(wire.InvalidRequest,
				fmt.Sprintf("use at most %s, or ask an administrator to raise it under [maximum] "+
					"in runner.toml", limit.text(limit.bound)), "limits.%s is out of range", limit.name)
		}
	}
	return nil
}

func duration(v float64) string { return time.Duration(v).String() }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// inBytes is a size as runner.toml and the options of run take it.
func inBytes(v float64) string {
	unit := ""
	for _, next := range []string{"K", "M", "G", "T"} {
		if v < 1024 || math.Mod(v, 1024) != 0 {
			break
		}
		v, unit = v/1024, next
	}
	return number(v) + unit
}
