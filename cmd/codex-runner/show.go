package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/sessions"
)

func showCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show ID", Short: "show a session, its commands and how they ended",
	}
	asJSON := c.Flags().Bool("json", false, "one JSON object, as the API returns it")
	connect := socketFlag(c.Flags())
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = viewingSession(connect, asJSON, func(c *cobra.Command, view sessions.View, id string) error {
		return view.Show(c.Context(), id)
	})
	return c
}
