package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/sessions"
)

func cancelCommand() *cobra.Command {
	n := 0
	c := &cobra.Command{
		Use: "cancel ID", Short: "end the commands of a session, and close it",
		Long: `
Ends the commands of the session ID, those that wait as well, and closes the session.
It returns before they have ended: logs --follow waits for that.`,
	}
	flags := c.Flags()
	commandFlag(flags, &n, "end this command alone, and leave the session open")
	asJSON := flags.Bool("json", false, "the session, as the API returns it")
	connect := socketFlag(flags)
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = viewingSession(connect, asJSON, func(c *cobra.Command, view sessions.View, id string) error {
		return view.Cancel(c.Context(), id, n)
	})
	return c
}

func releaseCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "release ID", Short: "end the hold of a command that failed",
		Long: `
Ends the time for which run --hold-on-failure keeps the sandbox of the session ID.`,
	}
	asJSON := c.Flags().Bool("json", false, "the session, as the API returns it")
	connect := socketFlag(c.Flags())
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = viewingSession(connect, asJSON, func(c *cobra.Command, view sessions.View, id string) error {
		return view.Release(c.Context(), id)
	})
	return c
}
