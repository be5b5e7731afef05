package doctor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHZ is the unit of times in /proc/PID/stat, on every Linux (proc_pid_stat(5)).
const userHZ = 100

// startOf is the start time of a process, to about a second; zero if it is unknown.
// systemd's own timestamps do not follow a hand-over of the main process.
func (h Host) startOf(pid uint32) time.Time {
	boot, err := h.bootTime()
	stat, statErr := os.ReadFile(h.path("/proc", fmt.Sprint(pid), "stat"))
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

func (h Host) bootTime() (time.Time, error) {
	stat, err := os.ReadFile(h.path("/proc/stat"))
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

// replaced reports whether the program of a process was removed or replaced after its
// start.
func (h Host) replaced(pid uint32) bool {
	exe, err := os.Readlink(h.path("/proc", fmt.Sprint(pid), "exe"))
	return err == nil && strings.HasSuffix(exe, " (deleted)")
}

// changedSince reports whether a file has changed after the start of a process. Both
// times are known to about a second.
func (h Host) changedSince(path string, pid uint32) bool {
	info, err := os.Stat(h.path(path))
	start := h.startOf(pid)
	return err == nil && !start.IsZero() && info.ModTime().After(start.Add(2*time.Second))
}
