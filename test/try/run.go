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

// stopTimeout is what the worker gets to finish: codex may be about to write
// down a login that it has just renewed.
const stopTimeout = 5 * time.Second

// run boots, installs, starts and follows the journal until ctx ends.
func run(ctx context.Context, deb string, w worker, out io.Writer) (err error) {
	began := time.Now()
	fmt.Fprintln(out, "booting systemd over this host's files …")
	m, err := machine.Start(ctx, machine.Host(), options(deb, w))
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := start(ctx, m, w); err != nil {
		return unlessStopped(ctx, err)
	}
	defer stop(ctx, m)
	if err := awaitReady(ctx, m); err != nil {
		return unlessStopped(ctx, err)
	}
	greet(ctx, out, w, time.Since(began))
	return follow(ctx, m, out)
}

func options(deb string, w worker) machine.Options {
	files := append([]machine.File{{Path: workerFile, Data: []byte(w.config)}}, w.files...)
	return machine.Options{ShareNetwork: true, Empty: installed, Unpack: []string{deb}, Files: files, Binds: w.binds}
}

// start brings the units up; boot has run the package's sysusers and tmpfiles.
func start(ctx context.Context, m *machine.Machine, w worker) error {
	if w.login {
		if _, _, err := m.Run(ctx, "mkdir", "--parents", workerHome); err != nil {
			return err
		}
		if _, _, err := m.Run(ctx, "ln", "--symbolic", hostCodexHome+"/auth.json", workerHome+"/auth.json"); err != nil {
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

// follow shows what our units log until ctx ends.
func follow(ctx context.Context, m *machine.Machine, out io.Writer) error {
	err := m.Exec(ctx, machine.Exec{
		Args:   []string{"journalctl", "--follow", "--boot", "--no-pager", "--lines=20", "--output=short", "--unit=" + ourUnits},
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
