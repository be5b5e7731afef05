package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"codex-proxy/test/machine"
)

// packages are what the projects are built with; toolchains that are no packages of Debian are bound.
var packages = []string{
	"git", "git-lfs", "python3", "python3-pip", "python3-dev", "make", "cmake", "gcc", "g++", "libc6-dev", "cargo",
	"maven", "default-jdk-headless", "autoconf", "automake", "libtool", "bison", "flex", "libonig-dev", "redis-server",
}

const (
	program = "/usr/local/bin/projects"
	bundle  = "/etc/ssl/certs/ca-certificates.crt"
	mirrors = "/srv/mirrors"
)

// outside boots the machine, and runs this program there.
func outside(ctx context.Context, s settings) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("booting systemd in namespaces takes root (hint: sudo -E make projects)")
	}
	options, err := s.options(ctx)
	if err != nil {
		return err
	}
	m, err := machine.Start(ctx, machine.Debian(s.suite, packages...), options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if out, err := m.InstallDeb(ctx, s.deb); err != nil {
		return fmt.Errorf("cannot install the package: %w\n%s", err, out)
	}
	if _, stderr, err := m.Run(ctx, "sh", "-ec", setUp); err != nil {
		return fmt.Errorf("cannot make the machine ready: %w: %s", err, stderr)
	}
	if s.mirrors != "" {
		s.Origins = mirrors
	}
	text, err := json.Marshal(s.job)
	if err != nil {
		return err
	}
	return m.Exec(ctx, machine.Exec{
		Args: []string{program, insideName}, Stdin: bytes.NewReader(text), Stdout: os.Stdout, Stderr: os.Stderr,
	})
}

// setUp makes the users and the links of programs. Git may read mirrors of another user. The files of sessions are on a
// file system that can have the changes of an overlay, unlike that of the machine, and so are those of the host's
// commands.
const setUp = `systemctl stop codex-runner.socket codex-runner.service
useradd --create-home --shell /bin/bash --groups codex-runner alice
mount -t tmpfs -o size=75% tmpfs /mnt; cp -a /var/lib /home /mnt
mount --bind /mnt/lib /var/lib; mount --bind /mnt/home /home; systemctl start codex-runner.socket
cd /usr/local/bin; ln -s /usr/local/go/bin/go .
ln -s ../lib/node_modules/npm/bin/npm-cli.js npm; ln -s ../lib/node_modules/pnpm/bin/pnpm.cjs pnpm
git config --system safe.directory '*'
! test -e /opt/rust || ln -s /opt/rust/bin/cargo /opt/rust/bin/rustc /opt/rust/bin/rustdoc .`

// options have the network of this host, and its trust, as a proxy of a company may be in between.
func (s settings) options(ctx context.Context) (machine.Options, error) {
	own, err := os.Executable()
	if err != nil {
		return machine.Options{}, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return machine.Options{}, fmt.Errorf("cannot find Go: %w", err)
	}
	names, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return machine.Options{}, err
	}
	o := machine.Options{
		ShareNetwork: true,
		Binds: []machine.Bind{
			{Source: string(bytes.TrimSpace(root)), Target: "/usr/local/go", ReadOnly: true},
			{Source: s.tools + "/node_modules", Target: "/usr/local/lib/node_modules", ReadOnly: true},
		},
		Install: []machine.Entry{
			{Path: program, Source: own, Mode: 0o755}, {Path: "/usr/local/bin/uv", Source: s.uv, Mode: 0o755},
			{Path: "/usr/local/bin/node", Source: s.node, Mode: 0o755},
		},
		Files: []machine.File{{Path: "/etc/resolv.conf", Data: names}},
		Units: []string{"codex-*"},
	}
	// The Rust of Debian is too old for some, whose people have one of rustup.
	if rust, err := exec.CommandContext(ctx, "rustc", "--print", "sysroot").Output(); err == nil {
		o.Binds = append(o.Binds, machine.Bind{Source: string(bytes.TrimSpace(rust)), Target: "/opt/rust", ReadOnly: true})
	}
	for _, file := range []string{bundle, "/etc/ssl/certs/java/cacerts"} {
		if _, err := os.Stat(file); err == nil {
			o.Binds = append(o.Binds, machine.Bind{Source: file, Target: file, ReadOnly: true})
		}
	}
	if s.mirrors != "" {
		o.Binds = append(o.Binds, machine.Bind{Source: s.mirrors, Target: mirrors, ReadOnly: true})
	}
	return o, nil
}
