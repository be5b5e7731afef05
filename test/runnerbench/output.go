package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"codex-proxy/runner/paths"
)

// followed is what 100 MB of output cost, by rounds.
type followed struct {
	Took  []float64 // ms from the first byte to the last one, at the follower
	CPU   []float64 // ms, of the session's main process and the daemon
	Cat   []float64 // ms, of cat
	Added []float64 // MiB, to the daemon's RSS at its peak
}

const (
	size = 100_000_000 // bytes
	// The command begins when all processes stand, and does not end before their CPU time is read.
	script = `echo ready; until [ -e go ]; do sleep 0.05; done; head -c 100000000 /dev/zero; exec sleep 1000`
)

func follow(ctx context.Context, rounds int) (followed, error) {
	var all followed
	for range rounds {
		if err := followOne(ctx, &all); err != nil {
			return all, err
		}
		if err := cat(ctx, &all); err != nil {
			return all, err
		}
	}
	return all, nil
}

func followOne(ctx context.Context, all *followed) error {
	out, err := run(ctx, "codex-runner", "run", "--detach", "--keep", "--output-limit", "200M", "--", "sh", "-c", script)
	if err != nil {
		return err
	}
	id := strings.TrimSpace(out)
	defer run(context.WithoutCancel(ctx), "codex-runner", "cancel", id) //nolint:errcheck // the machine ends, too
	output, stop, err := read(ctx, id)
	if err != nil {
		return err
	}
	defer stop()
	m, err := begin(ctx, id)
	if err != nil {
		return err
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(output, first); err != nil {
		return err
	}
	began := time.Now()
	if _, err := io.CopyN(io.Discard, output, size-1); err != nil {
		return err
	}
	all.Took = append(all.Took, millis(time.Since(began)))
	if err := m.end(all); err != nil {
		return err
	}
	_, err = run(ctx, "codex-runner", "cancel", id)
	return err
}

// read follows the output of a session that prints a line first of all, from behind that line on.
func read(ctx context.Context, id string) (output io.Reader, stop func(), err error) {
	reader := exec.CommandContext(ctx, "codex-runner", "logs", "-f", id)
	if output, err = reader.StdoutPipe(); err == nil {
		err = reader.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = reader.Process.Kill()
		_ = reader.Wait()
	}
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(output, line); err != nil {
		stop()
		return nil, nil, err
	}
	return output, stop, nil
}

// meter has the state before the output.
type meter struct {
	daemon, shim string // PIDs
	cpu          time.Duration
	rss          float64
}

// begin has the command begin.
func begin(ctx context.Context, id string) (m meter, err error) {
	if m.daemon, err = mainPID(ctx, "codex-runner.service"); err != nil {
		return m, err
	}
	if m.shim, err = mainPID(ctx, paths.SessionUnit(id)); err != nil {
		return m, err
	}
	// 5 resets the peak (proc_pid_clear_refs(5)).
	if err := os.WriteFile("/proc/"+m.daemon+"/clear_refs", []byte("5"), 0); err != nil {
		return m, err
	}
	if m.rss, err = memory(m.daemon, "status", "VmRSS"); err != nil {
		return m, err
	}
	if m.cpu, err = m.used(); err != nil {
		return m, err
	}
	tree, err := os.Readlink(paths.Sessions + "/" + id + "/" + paths.WorkspaceLink)
	if err != nil {
		return m, err
	}
	return m, os.WriteFile(tree+"/go", nil, 0o644)
}

func (m meter) used() (time.Duration, error) {
	daemon, err := cpu(m.daemon)
	if err != nil {
		return 0, err
	}
	shim, err := cpu(m.shim)
	return daemon + shim, err
}

func (m meter) end(all *followed) error {
	used, err := m.used()
	if err != nil {
		return err
	}
	peak, err := memory(m.daemon, "status", "VmHWM")
	all.CPU, all.Added = append(all.CPU, millis(used-m.cpu)), append(all.Added, peak-m.rss)
	return err
}

// cat is cat(1), from a pipe to a file on the disk of the logs.
func cat(ctx context.Context, all *followed) error {
	file, err := os.Create(paths.StateDir + "/bench")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	source := exec.CommandContext(ctx, "head", "-c", fmt.Sprint(size), "/dev/zero")
	c := exec.CommandContext(ctx, "cat")
	c.Stdout = file
	if c.Stdin, err = source.StdoutPipe(); err != nil {
		return err
	}
	if err := source.Start(); err != nil {
		return err
	}
	if err := c.Run(); err != nil {
		return err
	}
	all.Cat = append(all.Cat, millis(c.ProcessState.UserTime()+c.ProcessState.SystemTime()))
	return source.Wait()
}
