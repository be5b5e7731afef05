package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/config"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/sessions"
)

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
