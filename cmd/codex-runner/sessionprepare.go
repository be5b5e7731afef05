package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/prepare"
)

func sessionPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "session-prepare ID", Short: "ready a session for its next command (codex-session@.service)",
		Long: `
Opens the files of the next command of the session ID, passes them to session-exec
through systemd, and gives the session its workspace. It is ExecStartPre of
codex-session@ID.service and runs as root: the files belong to codex-runner.service,
and the sandbox of the session has no path to them.`,
		RunE: func(c *cobra.Command, args []string) error {
			notifier, err := notifierOf(c)
			if err != nil {
				return err
			}
			return prepare.Installed().Prepare(c.Context(), args[0], notifier)
		},
	}
}
