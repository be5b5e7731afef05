package notify

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryEvents returns the path of memory.events of this process's cgroup, for
// Command; there is no such file where cgroups have no memory controller.
func MemoryEvents() string {
	list, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(list)) {
		if path, v2 := strings.CutPrefix(line, "0::"); v2 { // cgroups(7)
			return filepath.Join("/sys/fs/cgroup", strings.TrimSpace(path), "memory.events")
		}
	}
	return ""
}

// oomKills counts the processes of a cgroup that the kernel has killed for lack of
// memory, be it that of the cgroup, of one above it or of the machine: oom_kill in
// memory.events (Documentation/admin-guide/cgroup-v2.rst). The kernel counts a
// process before it sends the signal.
type oomKills struct {
	path     string
	survived uint64 // kills that the command has outlived
}

// newOOMKills begins with what the cgroup has seen before.
func newOOMKills(path string) *oomKills {
	k := &oomKills{path: path}
	k.survived = k.count()
	return k
}

// count is 0 where nothing can be known.
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

// outlived notes that the command has answered after count was n, and returns how
// many other processes have been killed since the last time.
func (k *oomKills) outlived(n uint64) uint64 {
	others := max(n, k.survived) - k.survived
	k.survived += others
	return others
}

// fatal reports whether a kill has happened that the command has not outlived.
func (k *oomKills) fatal() bool { return k.count() > k.survived }
