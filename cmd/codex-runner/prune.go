package main

import (
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/sessions"
)

func pruneCommand() *cobra.Command {
	var p wire.Prune
	c := &cobra.Command{
		Use: "prune", Short: "remove closed sessions with their output and artifacts",
	}
	flags := c.Flags()
	flags.Var(cli.Duration((*time.Duration)(&p.OlderThan)), "older-than", `those that were closed longer ago; without it,
longer than runner.toml keeps them`)
	flags.BoolVar(&p.All, "all", false, "those of all users; for administrators")
	flags.BoolVar(&p.DryRun, "dry-run", false, "show which, and remove nothing")
	asJSON := flags.Bool("json", false, "one JSON object, as the API returns it")
	connect := socketFlag(flags)
	c.RunE = viewing(connect, asJSON, func(c *cobra.Command, view sessions.View, _ []string) error {
		return view.Prune(c.Context(), p)
	})
	return c
}
