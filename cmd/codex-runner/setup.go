package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

func setupCommand() *cobra.Command {
	dir, printed := ".", false
	c := &cobra.Command{
		Use: "setup", Short: "show how a repository is made ready for its commands",
		Long: `
Shows the set-up that makes the repository ready for run --env setup: the script of the
repository's own .codex-runner.toml, or one by the manifests of its packages, in any
directory, with the files that decided. If nothing fits, the exit status is 1.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 || !printed {
				return cli.Misuse(c, "want --print and no argument: `codex-runner run --env setup` runs the set-up")
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.BoolVar(&printed, "print", false, "print the script, which sh runs")
	flags.Var(cli.Text(&dir, "DIR"), "repo", "the directory of the repository")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return sessions.Status(sessions.PrintSetup(c.OutOrStdout(), dir), 1)
	}
	return c
}
