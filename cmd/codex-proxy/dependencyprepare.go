package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/dependencies/prepare"
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
