package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child under measurement.
type process struct{ *exec.Cmd }

// start runs a program whose standard error goes to talk. It dies with us.
func start(talk io.Writer, env []string, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = talk
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	return &process{cmd}, nil
}

// stop kills it: a clean stop is no part of the measurement.
func (p *process) stop() {
	_ = p.Process.Kill()
	_ = p.Wait() // the error is the kill
}

func (p *process) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.Process.Pid), name)
}

// cpu is the time all its threads have run, in the kernel's nanoseconds
// (schedstat in https://docs.kernel.org/scheduler/sched-stats.html). Go keeps
// its threads, so that none is missing.
func (p *process) cpu() (time.Duration, error) {
	tasks, err := filepath.Glob(p.file("task/*/schedstat"))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("cannot read the CPU time of %s: it has ended", p.Path)
	}
	total := time.Duration(0)
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		var ns int64
		if _, err := fmt.Sscan(string(b), &ns); err != nil {
			return 0, fmt.Errorf("cannot read %s: %w", path, err)
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// spent is the time all its threads have run, with those that have ended (the clock of clock_getcpuclockid(3)).
func (p *process) spent() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(int32(^p.Process.Pid)<<3|2, &t) // CPUCLOCK_SCHED of the process
	return time.Duration(t.Nano()), err
}

// memory is a line of /proc/PID/status, such as VmRSS or VmHWM, in MiB.
func (p *process) memory(line string) (float64, error) {
	b, err := os.ReadFile(p.file("status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), line+":")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("cannot read %s of %s: %w", line, p.Path, err)
	}
	return kib / 1024, nil
}

// atRest is the resident memory once the process has given back the memory of its start, or after ten seconds.
func (p *process) atRest(ctx context.Context, most float64) (rss float64, err error) {
	_ = until(ctx, "its memory at rest", func() error {
		if rss, err = p.memory("VmRSS"); err == nil && rss > most {
			return fmt.Errorf("%.1f MiB", rss)
		}
		return nil
	})
	return rss, err
}

// resetPeak makes VmHWM start again (clear_refs in proc_pid_clear_refs(5)).
func (p *process) resetPeak() error { return os.WriteFile(p.file("clear_refs"), []byte("5"), 0) }

func (p *process) files() (int, error) {
	entries, err := os.ReadDir(p.file("fd"))
	return len(entries), err
}

// until tries do until it succeeds, for ten seconds.
func until(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot reach %s: %w", what, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func dialled(network, address string) func() error {
	return func() error {
		c, err := net.Dial(network, address)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
}
