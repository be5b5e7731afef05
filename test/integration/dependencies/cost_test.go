package dependencies

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// The checks of Temporal at the interval of the preset use next to no CPU time.
func TestProbeCost(t *testing.T) { bed.EitherSuite(t, testProbeCost) }

func testProbeCost(t *testing.T, suite string) {
	d := newTemporal(t, suite, "")
	d.Start()
	shim := supervisor(d.Dependency)
	const span = 60 * time.Second
	<-time.After(10 * time.Second) // the start is no check
	const bound = 0.05             // per cent of a CPU
	share := 2 * bound
	for round := 0; share > bound && round < 3; round++ { // a full machine makes the same work dearer: the cheapest minute counts
		before := onCPU(t, shim)
		<-time.After(span) // the measurement is of the checks of a minute
		used := onCPU(t, shim) - before
		share = 100 * float64(used) / float64(span)
		resident, anonymous := bed.MemoryOf(t, shim)
		t.Logf("%.4f %% CPU: %s in %s; memory %d kB, %d kB of it anonymous", share, used, span, resident, anonymous)
	}
	assert.LessOrEqual(t, share, bound, "per cent of a CPU")
}

// supervisor is the process notify-exec.
func supervisor(d bed.Dependency) machine.Process {
	d.T.Helper()
	pid, err := d.MainPID(d.T.Context(), d.Unit)
	require.NoError(d.T, err)
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
