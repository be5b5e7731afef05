package notify

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryEvents returns the path of memory.events of this process's cgroup, for
// Command. Without the memory controller there is no such file.
func MemoryEvents() string {
	list, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(list)) {
		if path, v2 := strings.CutPrefix(line, "0::"); v2 { // cgroups(7)
			return filepath.Join("/sys/fs/cgroup", strings.TrimSpace(path), "memory.events")
		}
	}
	return ""
}

// oomKills counts the processes of a cgroup that the kernel has killed because the
// cgroup, one above it or the machine lacked memory: oom_kill in memory.events
// (Documentation/admin-guide/cgroup-v2.rst). The kernel counts a process before it
// sends the signal.
type oomKills struct {
	path     string
	survived uint64 // kills that the command has survived
}

// newOOMKills begins with the current count of the cgroup.
func newOOMKills(path string) *oomKills {
	k := &oomKills{path: path}
	k.survived = k.count()
	return k
}

// count is 0 if the kernel's count is unknown.
func (k *oomKills) count() uint64 {
	if k.path == "" {
		return 0
	}
	events, _ := os.ReadFile(k.path)
	for line := range bytes.Lines(events) {
		if number, found := bytes.CutPrefix(line, []byte("oom_kill ")); found {
			n, _ := strconv.ParseUint(string(bytes.TrimSpace(number)), 10, 64)
			return n
		}
	}
	return 0
}

// survive records that the command has answered after count was n. It returns the
// number of other processes killed since the last call.
func (k *oomKills) survive(n uint64) uint64 {
	others := max(n, k.survived) - k.survived
	k.survived += others
	return others
}

// fatal reports whether there was a kill that the command has not survived.
func (k *oomKills) fatal() bool { return k.count() > k.survived }
