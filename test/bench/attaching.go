package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"codex-proxy/test/bench/figures"
	"codex-proxy/test/machine"
	"codex-proxy/test/pty"
)

// Places in the machine of attaching.
const (
	codexPackage = "/opt/codex"
	codexInside  = "/usr/local/bin/codex"
	bareSocket   = "/run/bare/codex.sock"
	remoteUnit   = "codex-remote@build.service"
)

// bareUnit is an app-server without anything of ours. No turn is made, so that nothing listens at the provider.
const bareUnit = `[Service]
RuntimeDirectory=bare
StateDirectory=bare
Environment=CODEX_HOME=/var/lib/bare HOME=/var/lib/bare RUST_LOG=error
WorkingDirectory=/srv/build
ExecStart=` + codexInside + ` app-server -c model=demo -c model_provider=none ` +
	`-c model_providers.none.name=none -c model_providers.none.base_url=http://127.0.0.1:9/v1 --listen unix://` + bareSocket + `
`

const remoteFile = `directory = "/srv/build"
model = "demo"
codex_path = "` + codexInside + `"
idle_stop = "0s"
[provider]
name = "none"
base_url = "http://127.0.0.1:9/v1"
`

// attaching measures the time to the first picture of codex's TUI: at an app-server of its own, and by `codex-proxy
// attach` at a remote that runs, and at one that is stopped, beside the start of its unit alone.
func (b *bench) attaching(ctx context.Context) (err error) {
	if b.deb == "" {
		return errors.New("want -deb FILE, as `make bench` gives")
	}
	native, err := filepath.EvalSymlinks(b.codex) // in its package of npm: vendor/TARGET/bin/codex
	if err != nil {
		return err
	}
	target := filepath.Dir(filepath.Dir(native))
	npm := filepath.Dir(filepath.Dir(target))
	m, err := machine.Start(ctx, machine.Debian("trixie"), machine.Options{
		Binds: []machine.Bind{{Source: npm, Target: codexPackage, ReadOnly: true}},
		Files: []machine.File{{Path: "/etc/systemd/system/bare.service", Data: []byte(bareUnit)}, {
			Path: "/etc/systemd/system/codex-remote@.service.d/often.conf", Data: []byte("[Unit]\nStartLimitIntervalSec=0\n")}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if out, err := m.InstallDeb(ctx, b.deb); err != nil {
		return fmt.Errorf("cannot install the package: %w\n%s", err, out)
	}
	if err := m.WriteFile("/etc/codex-proxy/remotes/build.toml", []byte(remoteFile), 0o644); err != nil {
		return err
	}
	if _, _, err := m.Run(ctx, "sh", "-ec", `install -d -m 777 /srv/build
ln -s `+filepath.Join(codexPackage, "vendor", filepath.Base(target), "bin/codex")+" "+codexInside+`
systemctl daemon-reload
systemctl start bare.service codex-remote@build.socket
until [ -S `+bareSocket+` ]; do sleep 0.1; done`); err != nil {
		return err
	}
	if err := b.paints(ctx, m); err != nil {
		return err
	}
	return b.keeping(ctx, m)
}

// paints measures in rounds, after one that does not count.
func (b *bench) paints(ctx context.Context, m *machine.Machine) error {
	attach := []string{"codex-proxy", "attach", "build"}
	ways := []struct {
		before []string
		run    func(context.Context, *machine.Machine, ...string) (time.Duration, error)
		args   []string
	}{
		{nil, paint, []string{"codex", "--remote", "unix://" + bareSocket}},
		{[]string{"systemctl", "start", remoteUnit}, paint, attach},
		{[]string{"systemctl", "stop", remoteUnit}, timed, []string{"systemctl", "start", remoteUnit}},
		{[]string{"systemctl", "stop", remoteUnit}, paint, attach},
	}
	times := make([][]time.Duration, len(ways))
	for round := range 2*b.rounds + 1 {
		for i, way := range ways {
			if len(way.before) > 0 {
				if _, _, err := m.Run(ctx, way.before...); err != nil {
					return err
				}
			}
			took, err := way.run(ctx, m, way.args...)
			if err != nil {
				return err
			}
			if round > 0 {
				times[i] = append(times[i], took)
			}
		}
	}
	median := func(i int) float64 {
		slices.Sort(times[i])
		return float64(times[i][len(times[i])/2].Microseconds()) / 1000
	}
	const room = 50 // ms
	bare, started := median(0), median(2)
	for i, row := range []figures.Row{
		{What: "first paint: codex --remote, an app-server alone"},
		{What: "first paint: attach, the remote runs", Limit: bare + room},
		{What: "start of the remote's unit"},
		{What: "first paint: attach, the remote is stopped", Limit: bare + started + room},
	} {
		row.Unit, row.Quiet, row.Values = "ms", true, map[string]float64{ours: median(i)}
		b.result.Add(row)
	}
	return nil
}

func timed(ctx context.Context, m *machine.Machine, args ...string) (time.Duration, error) {
	began := time.Now()
	_, _, err := m.Run(ctx, args...)
	return time.Since(began), err
}

// paintBound bounds the wait for a picture.
const paintBound = time.Minute

// paint runs a program in a terminal until the TUI has painted, and kills it.
func paint(ctx context.Context, m *machine.Machine, args ...string) (took time.Duration, err error) {
	emulator, terminal, err := pty.New()
	if err != nil {
		return 0, err
	}
	if err := pty.SetSize(emulator, 40, 120); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, paintBound)
	defer cancel()
	ended := make(chan error, 1)
	began := time.Now()
	go func() {
		ended <- m.Exec(ctx, machine.Exec{Args: args, Env: []string{"TERM=xterm-256color"}, Stdin: terminal, Stdout: terminal,
			Stderr: terminal})
		_ = terminal.Close()
	}()
	var text bytes.Buffer
	for buffer := make([]byte, 64<<10); !bytes.Contains(text.Bytes(), []byte("OpenAI Codex")); {
		n, err := emulator.Read(buffer)
		if err != nil {
			return 0, fmt.Errorf("no picture of %q: %w: %w: %s", args, err, <-ended, text.Bytes())
		}
		text.Write(buffer[:n])
		// The answers of a terminal: where the cursor is, and what it can do.
		for question, answer := range map[string]string{"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?1;2c"} {
			if bytes.Contains(buffer[:n], []byte(question)) {
				if _, err := emulator.WriteString(answer); err != nil {
					return 0, err
				}
			}
		}
	}
	took = time.Since(began)
	cancel()
	if err := <-ended; err == nil {
		return 0, fmt.Errorf("%q has ended by itself", args)
	}
	return took, emulator.Close()
}
