package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/reload"
	"codex-proxy/internal/cli"
	"codex-proxy/notify/handoff"
)

func reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "replace the running daemon by the installed one",
		Long: `
Replaces the running daemon by a new process of the installed program, with the
configuration as it is now. No request is lost: turns in flight are finished by
the old process. If the new one does not become ready then the old one goes on
serving, and the reason is printed. Run by systemctl reload codex-proxy, which
leaves the reason in the journal and in systemctl status. That renews
codex-proxy-fetch.service and codex-proxy-traces.service, too; this command and
SIGHUP leave these with the program and the configuration that they have.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := reload.Request(c.Context(), reload.Path()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "a new process serves; the one before finishes its turns")
			return err
		},
	}
}

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
