package main

import (
	"github.com/spf13/cobra"

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
