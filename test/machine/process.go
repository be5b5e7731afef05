package machine

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a process of the machine.
type Process struct {
	Host    int    // PID as the host counts: for kill(2) from a test
	Inside  int    // PID as the machine counts, and as its systemd reports
	Command string // command line, arguments separated by spaces
}

// Processes returns the processes of a unit's cgroup, or of the whole machine
// if unit is "". It runs no command inside, so it costs microseconds.
func (m *Machine) Processes(unit string) ([]Process, error) {
	var list []Process
	level := len(namespacePIDs(m.pid)) - 1
	err := filepath.WalkDir(m.cgroup.path(), func(path string, d fs.DirEntry, err error) error {
		if unit != "" && path != m.cgroup.path() && strings.HasPrefix(d.Name(), cgroupPrefix) {
			return fs.SkipDir // a machine in this one has units of the same names
		}
		if err != nil || d.Name() != "cgroup.procs" || unit != "" && !strings.Contains(path+"/", "/"+unit+"/") {
			return nil // cgroups come and go while we walk
		}
		data, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(data)) {
			if p, ok := process(field, level); ok {
				list = append(list, p)
			}
		}
		return nil
	})
	return list, err
}

func process(hostPID string, level int) (Process, bool) {
	pid, _ := strconv.Atoi(hostPID)
	inside := namespacePIDs(pid)
	if level < 0 || len(inside) <= level {
		return Process{}, false // gone
	}
	line, _ := os.ReadFile("/proc/" + hostPID + "/cmdline")
	command := strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
	return Process{Host: pid, Inside: inside[level], Command: command}, true
}

// namespacePIDs returns the PIDs of a process from our namespace inwards,
// proc_pid_status(5).
func namespacePIDs(pid int) []int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	var pids []int
	for _, field := range strings.Fields(line) {
		n, _ := strconv.Atoi(field)
		pids = append(pids, n)
	}
	return pids
}

// HostPID translates a PID that systemd reports into the host's.
func (m *Machine) HostPID(inside int) (int, error) {
	processes, err := m.Processes("")
	if err != nil {
		return 0, err
	}
	for _, p := range processes {
		if p.Inside == inside {
			return p.Host, nil
		}
	}
	return 0, fmt.Errorf("cannot find process %d in the machine", inside)
}

// MainPID returns the main process of a unit as the host counts.
func (m *Machine) MainPID(ctx context.Context, unit string) (int, error) {
	values, err := m.Show(ctx, unit, "MainPID")
	if err != nil {
		return 0, err
	}
	inside, _ := strconv.Atoi(values["MainPID"])
	if inside == 0 {
		return 0, fmt.Errorf("cannot find the main process of %s: it has none", unit)
	}
	return m.HostPID(inside)
}

// Kill sends a signal to the main process of a unit, from outside: for systemd it is
// an unexpected death.
func (m *Machine) Kill(ctx context.Context, unit string, signal syscall.Signal) error {
	pid, err := m.MainPID(ctx, unit)
	if err != nil {
		return err
	}
	return unix.Kill(pid, signal)
}
