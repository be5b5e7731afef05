package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

func artifactsCommand() *cobra.Command {
	to := ""
	c := &cobra.Command{
		Use: "artifacts ID", Short: "list the files that commands of a session left, or save them",
		Long: `
Lists the files that the commands of the session ID left: those that match --artifact of
run. With --save it also writes them below DIR, each as NUMBER/PATH, with the number of
the command.`,
	}
	flags := c.Flags()
	flags.Var(cli.Text(&to, "DIR"), "save", "write them there")
	asJSON := flags.Bool("json", false, "one JSON object, as the API returns it")
	connect := socketFlag(flags)
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = viewingSession(connect, asJSON, func(c *cobra.Command, view sessions.View, id string) error {
		return view.Artifacts(c.Context(), id, to)
	})
	return c
}
