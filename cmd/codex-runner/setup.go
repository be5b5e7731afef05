package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

func setupCommand() *cobra.Command {
	dir, file, printed := ".", "", false
	c := &cobra.Command{
		Use: "setup", Short: "show how a repository is made ready for its commands",
		Long: `
Shows the set-up by which run makes the repository ready: the script of the repository's
own .codex-runner.toml, or one by the manifests of its packages, in any directory, with
the files that decided. run leaves out the parts whose programs the host lacks, and
comments name them. If nothing fits, the exit status is 1.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 || !printed {
				return cli.Misuse(c, "want --print and no argument: `codex-runner run --repo .` runs the set-up")
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.BoolVar(&printed, "print", false, "print the script, which sh runs")
	flags.Var(cli.Text(&dir, "DIR"), "repo", "the directory of the repository")
	setupFlag(flags, &file)
	c.RunE = func(c *cobra.Command, _ []string) error {
		given, err := sessions.ReadSetup(file)
		if err == nil {
			err = sessions.PrintSetup(c.Context(), c.OutOrStdout(), dir, given)
		}
		return sessions.Status(err, 1)
	}
	return c
}
