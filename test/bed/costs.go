package bed

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// UnitCPU is the CPU time that a unit has used, from its cgroup.
func UnitCPU(b *Bed, unit string) time.Duration {
	b.T.Helper()
	n, err := strconv.ParseInt(b.Properties(unit, "CPUUsageNSec")["CPUUsageNSec"], 10, 64)
	require.NoError(b.T, err)
	return time.Duration(n)
}

// MemoryOf is the resident memory of a process, and the part of it that is no file, in kB.
func MemoryOf(t *testing.T, p machine.Process) (resident, anonymous int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.Host))
	require.NoError(t, err)
	for name, kB := range map[string]*int{"Rss:": &resident, "Anonymous:": &anonymous} {
		_, rest, found := strings.Cut(string(text), "\n"+name)
		require.True(t, found, string(text))
		_, err = fmt.Sscan(rest, kB)
		require.NoError(t, err, string(text))
	}
	return resident, anonymous
}

// RSS is the resident memory of a process, in KiB.
func RSS(b *Bed, pid int) int { return ProxyMemory(b, pid, "VmRSS") }

// ProxyMemory is a figure of /proc/PID/status, in KiB.
func ProxyMemory(b *Bed, pid int, name string) int {
	b.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b.T, err)
	_, rest, ok := strings.Cut(string(data), name+":")
	require.True(b.T, ok)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(b.T, err)
	return n
}
