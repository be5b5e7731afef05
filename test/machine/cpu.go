package machine

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// CPU returns how much time of the processor all processes of the machine have taken since its start (cpu.stat,
// cgroups(7)): for a test's author it is the cost, while the time that a test takes is mostly that of waits.
func (m *Machine) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(m.cgroup.path("cpu.stat"))
	if err != nil {
		return 0, fmt.Errorf("cannot read what the machine has computed: %w", err)
	}
	var usec int64
	if _, err := fmt.Fscanf(strings.NewReader(string(stat)), "usage_usec %d", &usec); err != nil {
		return 0, fmt.Errorf("cannot read what the machine has computed: %w: %q", err, stat)
	}
	return time.Duration(usec) * time.Microsecond, nil
}
