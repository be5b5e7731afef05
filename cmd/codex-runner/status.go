package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/runner/sessions"
)

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "show whether the service is ready, and its load",
	}
	asJSON := c.Flags().Bool("json", false, "one JSON object, as the API returns it")
	connect := socketFlag(c.Flags())
	c.RunE = viewing(connect, asJSON, func(c *cobra.Command, view sessions.View, _ []string) error {
		return view.Status(c.Context())
	})
	return c
}
