package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

// changesFlags are the options about changes that are not committed, and about changes by COMMAND.
func changesFlags(flags *pflag.FlagSet, r *sessions.Run) {
	flags.Bool("dirty", false, `take along the changes of the directory --repo that are not
committed, new files too, and not those that git ignores. On
a terminal, that is the default`)
	flags.Bool("clean", false, "run the commit alone, without such changes")
	flags.BoolVar(&r.Apply, "apply", false, `if COMMAND succeeds, apply what it changed to the files of
the directory --repo: all of it, or nothing if that does
not fit. codex-runner diff ID prints the patch then`)
	flags.Var(cli.Text(&r.Branch, "NAME"), "branch", `if COMMAND succeeds, make this branch of the directory
--repo, with a commit of what it changed; no file is touched`)
}

// checkChanges sets Changes of r by the options.
func checkChanges(c *cobra.Command, r *sessions.Run) error {
	dirty, _ := c.Flags().GetBool("dirty") // both options are there
	clean, _ := c.Flags().GetBool("clean")
	switch {
	case dirty && clean:
		return cli.Misuse(c, "--dirty and --clean exclude each other: leave one out")
	case (dirty || clean) && r.Source == "" && r.Session == "":
		return cli.Misuse(c, "--dirty and --clean are about a directory: name it with --repo")
	case dirty && r.New.Ref != "":
		return cli.Misuse(c, "--dirty has the changes of the commit that is checked out: leave it or --ref out")
	case (r.Apply || r.Branch != "") && r.Session != "":
		return cli.Misuse(c, "--apply and --branch are of a new session: `codex-runner diff ID` has the changes of one "+
			"that is there")
	case (r.Apply || r.Branch != "") && r.Source == "":
		return cli.Misuse(c, "--apply and --branch change a directory: name it with --repo")
	case (r.Apply || r.Branch != "") && r.Detach:
		return cli.Misuse(c, "--apply and --branch wait for COMMAND, and --detach does not: leave one out")
	case dirty:
		r.Changes = sessions.ChangesTaken
	case clean:
		r.Changes = sessions.ChangesClean
	case cli.IsTerminal(c.ErrOrStderr()):
		r.Changes = sessions.ChangesOffered
	}
	return nil
}
