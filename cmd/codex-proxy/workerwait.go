package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/workers/prepare"
)

func workerWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker-wait NAME", Short: "wait for a worker's restart delay (codex-worker@.service)",
		Long: `
Waits, where systemd has no growing restart delays (before 254), for what is left of
the delay that RestartSteps= and RestartMaxDelaySec= ask for. Elsewhere it ends at
once. It is the first ExecStartPre of codex-worker@NAME.service, and runs as root:
dbus-daemon refuses the worker's user, which is in no file of users.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepare.Wait(c.Context(), args[0], c.ErrOrStderr())
		},
	}
}
