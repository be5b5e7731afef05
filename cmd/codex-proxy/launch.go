package main

import (
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/notify/handoff"
)

func launchCommand() *cobra.Command {
	c := &cobra.Command{
		Use: handoff.LaunchCommand + " PROGRAM [ARG]...", Short: "start the next daemon for a reload (run by serve)",
		Long: `
Starts the new process of a reload. Run by codex-proxy serve, which hands it a
socket; it is of no use otherwise.`,
		RunE: func(c *cobra.Command, args []string) error {
			return cli.Exit(handoff.Launch(args, os.Stdin, c.OutOrStdout()), nil)
		},
	}
	c.Flags().SetInterspersed(false) // the options after PROGRAM are its own
	return c
}
