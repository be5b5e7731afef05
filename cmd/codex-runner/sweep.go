package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/prepare"
)

func sweepCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sweep WHAT", Short: "remove what nobody uses any more (codex-sweep@.service)",
		Long: `
Removes what belongs to a user that systemd gave for a time: WHAT is session-ID for the
home of a session, repository-KEY, environment-KEY, or slot-NUMBER for a workspace. It is
the main process of codex-sweep@WHAT.service. What a running session has is not removed.`,
		RunE: func(_ *cobra.Command, args []string) error { return prepare.Installed().Sweep(args[0]) },
	}
}
