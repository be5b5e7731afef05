package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"codex-proxy/daemon"
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
			if err := daemon.RequestReload(c.Context(), daemon.ReloadPath()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "a new process serves; the one before finishes its turns")
			return err
		},
	}
}
