package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// The checks of Temporal at the interval of the preset use next to no CPU time.
func TestProbeCost(t *testing.T) { bothSuites(t, testProbeCost) }

func testProbeCost(t *testing.T, suite string) {
	d := newTemporal(t, suite, "")
	d.start()
	shim := d.supervisor()
	const span = 60 * time.Second
	<-time.After(10 * time.Second) // the start is no check
	const bound = 0.05             // per cent of a CPU
	share := 2 * bound
	for round := 0; share > bound && round < 3; round++ { // a full machine makes the same work dearer: the cheapest minute counts
		before := onCPU(t, shim)
		<-time.After(span) // the measurement is of the checks of a minute
		used := onCPU(t, shim) - before
		share = 100 * float64(used) / float64(span)
		resident, anonymous := memory(t, shim)
		t.Logf("%.4f %% CPU: %s in %s; memory %d kB, %d kB of it anonymous", share, used, span, resident, anonymous)
	}
	assert.LessOrEqual(t, share, bound, "per cent of a CPU")
}

// supervisor is the process notify-exec.
func (d dependency) supervisor() machine.Process {
	d.t.Helper()
	pid, err := d.MainPID(d.t.Context(), d.unit)
	require.NoError(d.t, err)
	return machine.Process{Host: pid}
}

// onCPU is the CPU time of a process, in the nanoseconds of the scheduler.
func onCPU(t *testing.T, p machine.Process) (total time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Host))
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, path := range threads {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var thread time.Duration
		_, err = fmt.Sscanf(string(text), "%d", &thread)
		require.NoError(t, err, string(text))
		total += thread
	}
	return total
}

// memory is the resident memory of a process, and the part of it that is no file, in kB.
func memory(t *testing.T, p machine.Process) (resident, anonymous int) {
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
