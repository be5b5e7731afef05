package main

import (
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/runner/prepare"
)

func sessionEndedCommand() *cobra.Command {
	return &cobra.Command{
		Use: "session-ended ID", Short: "record the end of a session's command (codex-session@.service)",
		Long: `
Records how the unit of the session ID has ended, from the variables of systemd and the
counters of its cgroup, and removes what the start has made. It is ExecStopPost of
codex-session@ID.service and runs as root, after any end: no process of the session is
left then.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return prepare.Installed().End(args[0], os.Getenv)
		},
	}
}
