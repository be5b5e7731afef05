// Command shell is `make shell`: it boots a Debian with systemd in namespaces, installs the packages of codex-proxy and
// codex-runner there with the real codex, and opens a shell in it. The machine ends with the shell and leaves nothing.
//
//	shell -proxy FILE.deb -runner FILE.deb -codex DIR [-suite trixie]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"codex-proxy/test/machine"
)

// settings are the flags.
type settings struct {
	suite  string   // code name of a Debian
	debs   []string // packages to install, in this order
	codex  string   // directory of codex, with bin/codex
	script string   // a command in place of a shell on the terminal
}

func main() {
	var s settings
	proxy := flag.String("proxy", "", "the package of codex-proxy")
	runner := flag.String("runner", "", "the package of codex-runner")
	flag.StringVar(&s.suite, "suite", "trixie", "the Debian: trixie has systemd 257, bookworm 252")
	flag.StringVar(&s.codex, "codex", "", "the directory of codex, which has bin/codex")
	flag.StringVar(&s.script, "c", "", "run this command with sh instead of a shell on the terminal")
	flag.Parse()
	s.debs = []string{*proxy, *runner}
	// The shell gets Ctrl-C by its own terminal, so this program is not interrupted meanwhile.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	err := open(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make shell:", err)
		os.Exit(1)
	}
}

// open boots the machine, installs the packages, and runs the shell until its end.
func open(ctx context.Context, s settings) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("booting systemd in namespaces takes root (hint: sudo -E make shell)")
	}
	fmt.Printf("booting Debian %s …\n", s.suite)
	m, err := machine.Start(ctx, machine.Debian(s.suite, "git", "python3", "python3-pip"), options(s.codex))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, deb := range s.debs {
		fmt.Printf("installing %s …\n", deb)
		if out, err := m.InstallDeb(ctx, deb); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	// After the installation, as an operator does: dpkg asks about a file of its own that was there before.
	if err := m.WriteFile(workerFile, []byte("mode = \"demo\"\n"), 0o644); err != nil {
		return err
	}
	// A worker takes no script for codex.
	if err := m.Exec(ctx, machine.Exec{Args: []string{"ln", "-s", "/opt/codex/bin/codex", "/usr/local/bin/codex"}}); err != nil {
		return err
	}
	if s.script != "" {
		return m.Exec(ctx, machine.Exec{Args: []string{"sh", "-c", s.script}, Stdout: os.Stdout, Stderr: os.Stderr})
	}
	fmt.Print(greeting)
	return onTerminal(ctx, m)
}

// workerFile is the worker's, which the demo needs no account for.
const workerFile = "/etc/codex-proxy/workers/default.toml"

const greeting = `Both packages are installed, codex is on PATH, and there is no network.
  systemctl start codex-proxy      the API on 127.0.0.1:8787, with a demo worker
  codex-proxy doctor               checks the installation
  codex-runner run -- echo hello   runs a command in a session
  exit                             ends the machine
`

// options give the machine codex.
func options(codex string) machine.Options {
	return machine.Options{
		Binds: []machine.Bind{{Source: codex, Target: "/opt/codex", ReadOnly: true}},
	}
}
