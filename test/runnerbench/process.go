package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// mainPID is the main process of a unit.
func mainPID(ctx context.Context, unit string) (string, error) {
	out, err := run(ctx, "systemctl", "show", "--property=MainPID", "--value", unit)
	return strings.TrimSpace(out), err
}

// cpu is the CPU time of the threads of a process (schedstat). Go ends none of its own.
func cpu(pid string) (time.Duration, error) {
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("cannot find the process %s: %w", pid, err)
	}
	var sum time.Duration
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		on, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(on, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// memory is the sum of some figures of a file in /proc/PID, in MiB: of VmRSS, or of Private_Clean and Private_Dirty.
func memory(pid, file, figures string) (float64, error) {
	text, err := os.ReadFile("/proc/" + pid + "/" + file)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, found := range regexp.MustCompile(`(?m)^(?:`+figures+`):\s+(\d+) kB$`).FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			return 0, err
		}
		sum += float64(n)
	}
	return sum / 1024, nil
}
