package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"codex-proxy/dependencies/prepare"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/requires"
	"codex-proxy/workers/shim"
)

func dependencyPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dependency-prepare NAME",
		Short: "look for other owners of a dependency's data (codex-dependency@.service)",
		Long: `
Waits, where systemd has no growing restart delays (before 254), for what is left of
the delay, as worker-wait does. Then it looks for processes that hold what the
dependency needs for itself: its lock, its ports, and files of its data that are open
for writing. If there are any, it leaves their pids, command lines and units to
notify-exec --refused, which ends the start without a restart. It is the first
ExecStartPre of codex-dependency@NAME.service, and runs as root, because only root can
see the open files of other users.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepare.Dependency(c.Context(), args[0], c.ErrOrStderr())
		},
	}
}

func dependencyBoundCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dependency-bound record|start NAME UNIT...", Short: "start what is bound to a dependency with it again",
		Long: `
Is part of codex-dependency@NAME.service if units are bound to it (bind_requires).
When the dependency ends, record notes which of the units that stops. When the
dependency is ready again, start starts them. What an operator has stopped before that
end stays stopped.`,
		RunE: func(c *cobra.Command, args []string) error {
			manager := units.NewManager()
			defer manager.Close()
			bound := requires.Bound{Dir: paths.DependencyBound, Systemd: manager}
			if err := units.ValidDependencyName(args[1]); err != nil {
				return err
			}
			switch args[0] {
			case "record":
				return bound.Record(c.Context(), args[1], args[2:])
			case "start":
				return bound.Start(c.Context(), args[1], args[2:])
			}
			return fmt.Errorf("there is no %q; use record or start", args[0])
		},
	}
}

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
