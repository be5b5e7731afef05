package survey

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Generated is where systemd's generators write (systemd.generator(7)).
const Generated = "/run/systemd/generator"

// userHZ is the unit of times in /proc/PID/stat, on every Linux (proc_pid_stat(5)).
const userHZ = 100

// StartOf is the start time of a process, to about a second; zero if it is unknown.
// systemd's own timestamps do not follow a hand-off of the main process.
func (m Machine) StartOf(pid uint32) time.Time {
	boot, err := m.bootTime()
	stat, statErr := os.ReadFile(m.Path("/proc", fmt.Sprint(pid), "stat"))
	if err != nil || statErr != nil {
		return time.Time{}
	}
	// The name, in parentheses, may contain any bytes.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const starttime = 22 - 3 // the first field after the name is the third
	if len(fields) <= starttime {
		return time.Time{}
	}
	ticks, err := strconv.ParseInt(fields[starttime], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return boot.Add(time.Duration(ticks) * (time.Second / userHZ))
}

func (m Machine) bootTime() (time.Time, error) {
	stat, err := os.ReadFile(m.Path("/proc/stat"))
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(stat)) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return time.Unix(seconds, 0), err
		}
	}
	return time.Time{}, fmt.Errorf("/proc/stat has no btime")
}

// Replaced reports whether the program of a process was removed or replaced after its
// start.
func (m Machine) Replaced(pid uint32) bool {
	exe, err := os.Readlink(m.Path("/proc", fmt.Sprint(pid), "exe"))
	return err == nil && strings.HasSuffix(exe, " (deleted)")
}

// ChangedSince reports whether a file has changed after the start of a process. Both
// times are known to about a second.
func (m Machine) ChangedSince(path string, pid uint32) bool {
	info, err := os.Stat(m.Path(path))
	start := m.StartOf(pid)
	return err == nil && !start.IsZero() && info.ModTime().After(start.Add(2*time.Second))
}
