package main

import (
	"errors"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/workers/shim"
)

func lockExecCommand() *cobra.Command {
	var owner shim.Owner
	c := &cobra.Command{
		Use:   "lock-exec [OPTION]... -- COMMAND [ARG]...",
		Short: "run a command before notify-exec, under its lock (codex-dependency@.service)",
		Long: `
Becomes COMMAND, with the lock of --lock. If another process holds the lock, or the
start of the unit is refused, it ends without COMMAND and with status 0: notify-exec
reports that afterwards, with the same options, as the main process of the unit. It is
the ExecStartPre= for the prepare command of a dependency.

Exit status: that of COMMAND; 64 for wrong usage; 203 if COMMAND cannot be started.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Exit(cli.Usage, errors.New("no command: put it last, after --, as in lock-exec "+
					"--lock my.service:/var/lib/my -- COMMAND ARG"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return owner.Exec(c.Context(), args) },
	}
	ownerFlags(c.Flags(), &owner)
	c.Flags().SetInterspersed(false) // the options after COMMAND are its own
	return c
}
