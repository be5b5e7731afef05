package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"codex-proxy/test/machine"
)

// bed is a machine with the installed package.
type bed struct {
	*machine.Machine
	systemd string // its version
}

// program is this program in the machine.
const program = "/usr/local/bin/bench-runner"

// settings leave room for 200 sessions at once.
const settings = "max_sessions = 210\nworkspaces = 210\n"

// in calls do with a machine.
func (b *bench) in(ctx context.Context, suite string, do func(context.Context, *bed) error) (err error) {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	m, err := machine.Start(ctx, machine.Debian(suite, "git", "python3", "python3-pip"), machine.Options{
		Install: []machine.Entry{{Path: program, Source: own, Mode: 0o755}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if out, err := m.InstallDeb(ctx, b.deb); err != nil {
		return fmt.Errorf("cannot install the package: %w\n%s", err, out)
	}
	if err := m.WriteFile("/etc/codex-runner/runner.toml", []byte(settings), 0o644); err != nil {
		return err
	}
	version, _, err := m.Run(ctx, "systemctl", "--version")
	if err != nil {
		return err
	}
	t := &bed{Machine: m, systemd: strings.Fields(version)[1]}
	if _, _, err := m.Run(ctx, "systemctl", "restart", "codex-runner.service"); err != nil {
		return err
	}
	return do(ctx, t)
}

// inside runs a part of this program in the machine: it gets the question as JSON, and its answer is decoded.
func (t *bed) inside(ctx context.Context, name string, question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	var out, errOut bytes.Buffer
	err = t.Exec(ctx, machine.Exec{
		Args: []string{program, insideName, name}, Stdin: bytes.NewReader(text), Stdout: &out, Stderr: &errOut,
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	return json.Unmarshal(out.Bytes(), answer)
}
