package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/codex/appservertest"
	"codex-proxy/internal/cli"
	"codex-proxy/remotes/workerhands"
	runnerpaths "codex-proxy/runner/paths"
	"codex-proxy/units"
	"codex-proxy/workers/prepare"
)

func workerPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker-prepare NAME", Short: "write a worker's codex configuration (codex-worker@.service)",
		Long: `
Makes the CODEX_HOME of the worker NAME from /etc/codex-proxy/workers/NAME.toml,
has codex check it, and links RUNTIME_DIRECTORY/codex to the program to run. It is
ExecStartPre of codex-worker@NAME.service and takes its directories from systemd:
STATE_DIRECTORY or CODEX_HOME, RUNTIME_DIRECTORY, CREDENTIALS_DIRECTORY,
CONFIGURATION_DIRECTORY.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepare.Worker(c.Context(), args[0], c.ErrOrStderr())
		},
	}
}

func workerWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker-wait NAME",
		Short: "wait for a worker's restart delay, and choose its codex (codex-worker@.service)",
		Long: `
Waits, where systemd has no growing restart delays (before 254), for what is left of
the delay that RestartSteps= and RestartMaxDelaySec= ask for. Then it chooses the copy
of codex that the worker runs, as codex in config.toml says, and makes a missing one.
If network in the worker's file has changed, it moves the login to or from the home of
codex-login@NAME.service. It stops the workers of other accounts that this one serves
(processes in config.toml), and moves their logins in the same way. It is the first
ExecStartPre of codex-worker@NAME.service, and runs as root: root alone writes to the
copies, and dbus-daemon refuses the worker's user, which is in no file of users.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepare.Wait(c.Context(), args[0], codexPolicy, c.ErrOrStderr())
		},
	}
}

func accountLoginCommand() *cobra.Command {
	const pause = 10 * time.Second // a reading has several questions
	idle := pause
	c := &cobra.Command{
		Use: "account-login NAME", Short: "keep a worker's login (codex-login@.service)",
		Long: `
Runs a codex for the login of the worker NAME alone, and answers the questions on the
socket of codex-login@NAME.socket: for an access token, which codex refreshes, and for the
account and its quota. It never gives the refresh token. It ends after a time without a
question. With a fault in the settings, or without a login, it answers with the reason for
5 seconds, and exits with 78.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepare.Login(c.Context(), args[0], versionString(), idle, c.ErrOrStderr())
		},
	}
	c.Flags().Var(cli.Duration(&idle), "idle", "the time without a question after which it ends, by default 10s")
	return c
}

func appServerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "app-server", Short: "the demo worker, in place of codex app-server",
		Long: `
The demo worker: it speaks the protocol of codex app-server, needs no account
and answers every prompt with a canned text, as the model "demo". It takes the
options with which codex app-server is run, so that it can stand in for it.`,
	}
	path := ""
	c.Flags().Var(cli.Parsed("unix://PATH", "", func(text string) (err error) {
		var ok bool
		if path, ok = strings.CutPrefix(text, "unix://"); !ok {
			err = errors.New("want unix://PATH")
		}
		return err
	}), "listen", "the socket to make")
	_ = c.MarkFlagRequired("listen")
	c.Flags().Bool("strict-config", false, "taken, and without effect: there is no configuration")
	c.RunE = func(c *cobra.Command, _ []string) error { return serveDemo(c.Context(), path) }
	return c
}

func serveDemo(ctx context.Context, path string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	// A killed predecessor leaves its socket behind.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return (&appservertest.Server{}).Serve(ctx, l)
}

func workerHandsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker-hands NAME", Short: "keep the sessions of a worker's hands (codex-hands@.service)",
		Long: `
Keeps the sessions of codex-runner in which the codex of the worker NAME executes the
commands of conversations, as [hands] of /etc/codex-proxy/workers/NAME.toml says, and
relays between the two. It is the main process of codex-hands@NAME.service, and serves
the daemon and codex on the two sockets of codex-hands@NAME.socket. If the file has a
fault, or no [hands], it refuses every request with the reason.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := units.ValidName(args[0]); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			u := workerhands.Unit{Worker: args[0], Dir: os.Getenv("STATE_DIRECTORY"), Runner: runnerpaths.Socket,
				Search: os.Getenv("PATH"), Stderr: c.ErrOrStderr()}
			if u.Dir == "" {
				return errors.New("STATE_DIRECTORY is not set: this is a command of codex-hands@.service; " +
					"`systemctl start codex-hands@" + args[0] + "`")
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return u.Run(ctx)
		},
	}
}
