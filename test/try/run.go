package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"codex-proxy/test/machine"
)

// stopTimeout bounds the stop of the worker: codex may be about to write a login that
// it has just renewed.
const stopTimeout = 5 * time.Second

// run boots a machine with the package's files, starts the service and follows the
// journal until ctx ends. It prints each step.
func run(ctx context.Context, install []machine.Entry, w worker, out io.Writer) (err error) {
	began := time.Now()
	fmt.Fprintln(out, "booting systemd over this host's files …")
	m, err := machine.Start(ctx, machine.Host(), options(install, w))
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	fmt.Fprintf(out, "starting %s …\n", target)
	if err := start(ctx, m, w); err != nil {
		return unlessStopped(ctx, err)
	}
	defer stop(ctx, m)
	if err := awaitReady(ctx, m); err != nil {
		return unlessStopped(ctx, err)
	}
	greet(ctx, out, w, m, time.Since(began))
	if err := showRunner(ctx, m, out); err != nil {
		return unlessStopped(ctx, err)
	}
	return follow(ctx, m, out)
}

func options(install []machine.Entry, w worker) machine.Options {
	return machine.Options{
		ShareNetwork: true, Empty: installed, Install: install, Binds: w.binds,
		Files: append([]machine.File{{Path: workerFile, Data: []byte(w.config)}}, w.files...),
	}
}

// start starts the units; the boot has applied the package's sysusers and tmpfiles.
func start(ctx context.Context, m *machine.Machine, w worker) error {
	if w.login {
		if _, _, err := m.Run(ctx, "mkdir", "--parents", workerHome); err != nil {
			return err
		}
		login := hostCodexHome + "/auth.json"
		if _, _, err := m.Run(ctx, "ln", "--symbolic", login, workerHome+"/auth.json"); err != nil {
			return err
		}
	}
	if _, err := m.Systemctl(ctx, "start", "--no-block", target); err != nil {
		return fmt.Errorf("cannot start %s: %w", target, err)
	}
	return nil
}

func stop(ctx context.Context, m *machine.Machine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_, _ = m.Systemctl(ctx, "stop", target)
}

// follow prints the log of our units until ctx ends.
func follow(ctx context.Context, m *machine.Machine, out io.Writer) error {
	err := m.Exec(ctx, machine.Exec{
		Args: []string{
			"journalctl", "--follow", "--boot", "--no-pager", "--lines=40", "--output=short", "--unit=" + ourUnits,
		},
		Stdout: out, Stderr: os.Stderr,
	})
	if ctx.Err() == nil {
		return fmt.Errorf("the machine has stopped: %w", err)
	}
	fmt.Fprintln(out, "stopping …")
	return nil
}

// unlessStopped drops the error that Ctrl-C causes.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
