package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// keeping measures the memory that a remote takes beside its codex, at rest after an attach and a turn: that of its main
// process and of the first process of its namespaces, which no other process shares.
func (b *bench) keeping(ctx context.Context, m *machine.Machine) error {
	l, err := m.Listen("tcp", "127.0.0.1:9")
	if err != nil {
		return err
	}
	models := modelserver.New("demo")
	if err := models.Always("", "text hello"); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return models.Serve(serving, l) })
	defer func() { stop(); _ = running.Wait() }()
	const rest = 5 * time.Second // the runtime has returned what it does not need
	if _, _, err := m.Run(ctx, "sh", "-ec", `codex-proxy remotes send build hello
until journalctl -u `+remoteUnit+` | grep -q 'a turn of a remote has ended'; do sleep 0.1; done`); err != nil {
		return err
	}
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	keeper, err := m.MainPID(ctx, remoteUnit)
	if err != nil {
		return err
	}
	first, err := child(keeper)
	if err != nil {
		return fmt.Errorf("the main process of %s: %w", remoteUnit, err)
	}
	var all float64
	for i, pid := range []int{keeper, first} {
		own, err := private(pid)
		if err != nil {
			return err
		}
		b.result.One([]string{"private RSS: main process of a remote", "private RSS: first process of its namespaces"}[i],
			"MiB", 0, own)
		all += own
	}
	b.result.One("private RSS: a remote beside its codex", "MiB", 10, all)
	return nil
}

// child is the first child of a process, of whichever thread.
func child(pid int) (first int, err error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		if text, err := os.ReadFile(list); err == nil && len(text) > 0 {
			_, err := fmt.Sscan(string(text), &first)
			return first, err
		}
	}
	return 0, errors.Join(errors.New("it has no child"), err)
}

// private is the memory that a process has of its own, in MiB: all but the pages of its program's file, which a second
// remote shares.
func private(pid int) (mib float64, err error) {
	return (&process{Cmd: &exec.Cmd{Path: remoteUnit, Process: &os.Process{Pid: pid}}}).memory("RssAnon")
}
