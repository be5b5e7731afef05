package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/config"
	"codex-proxy/runner/sandbox"
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

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "show whether the service is ready, and its load",
	}
	asJSON := c.Flags().Bool("json", false, "one JSON object, as the API returns it")
	connect := socketFlag(c.Flags())
	c.RunE = viewing(connect, asJSON, func(c *cobra.Command, view sessions.View, _ []string) error {
		settings, _ := sandbox.Read(config.Path) // doctor has the error
		return view.Status(c.Context(), settings.Missing(func(path string) string { return path }))
	})
	return c
}
