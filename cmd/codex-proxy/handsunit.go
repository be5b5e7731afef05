package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/remotes/workerhands"
	runnerpaths "codex-proxy/runner/paths"
	"codex-proxy/units"
)

func workerHandsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker-hands NAME", Short: "keep the sessions of a worker's hands (codex-hands@.service)",
		Long: `
Keeps the sessions of codex-runner in which the codex of the worker NAME executes the
commands of conversations, as [hands] of /etc/codex-proxy/workers/NAME.toml says, and
relays between the two. It is the main process of codex-hands@NAME.service, and serves
the daemon and codex on the two sockets of codex-hands@NAME.socket. The exit status is
78 for a fault of the file.`,
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
