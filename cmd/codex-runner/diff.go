package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

func diffCommand() *cobra.Command {
	var d sessions.Diff
	c := &cobra.Command{
		Use: "diff ID", Short: "print what the commands of a session changed, as a patch",
		Long: `
Prints what the commands of the session ID have changed in its workspace since it began,
as a patch for git apply: binary files too, and neither ignored files nor those of a
set-up (.venv, node_modules). Changes that the session began with, by --dirty or --patch
of run, are no part of it. With --branch it makes a branch of the changes instead, and
touches no file.

It waits for the commands before it. Of a closed session it prints the patch that was
taken last, by diff, or by --apply or --branch of run.`,
	}
	flags := c.Flags()
	flags.Var(cli.Text(&d.Branch, "NAME"), "branch", `make this branch, with a commit of the changes on top of the
commit that the session began with; changes that were not
committed become a commit before it`)
	flags.Var(cli.Text(&d.Repo, "DIR"), "repo", `the repository that gets the branch; without it the directory
that the session was made from`)
	connect := socketFlag(flags)
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := checked(c, args[0])
		if err != nil {
			return err
		}
		if d.Repo != "" && d.Branch == "" {
			return cli.Misuse(c, "--repo is the repository of the branch: name that with --branch")
		}
		d.Client, d.Stdout, d.Stderr = connect(), c.OutOrStdout(), c.ErrOrStderr()
		defer d.Client.Close()
		return d.Run(c.Context(), id)
	}
	return c
}
