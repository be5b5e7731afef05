package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"codex-proxy/notify"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/prepare"
)

func repositoryPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "repository-prepare KEY", Short: "ready the fetch of a repository (codex-repository@.service)",
		Long: `
Opens the files of the order to fetch the repository KEY, and passes them to
repository-fetch through systemd. It is ExecStartPre of codex-repository@KEY.service and
runs as root: the files belong to codex-runner.service.`,
		RunE: func(c *cobra.Command, args []string) error { return prepareJob(c, args[0], paths.RepositoryDir) },
	}
}

func repositoryFetchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "repository-fetch", Short: "fetch a repository and its submodules (codex-repository@.service)",
		Long: `
Makes the mirror of a repository, or brings it up to date, finds out which commit is
meant, and fetches the submodules of that commit. It is the main process of
codex-repository@KEY.service.

Exit status: 0 if the result is written, also that of a fetch that failed; others for
faults of this program.`,
		RunE: func(c *cobra.Command, _ []string) error {
			files, err := notify.InheritedFiles()
			if err != nil {
				return err
			}
			credentials := filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), paths.RepositoryCredentialPrefix)
			return job.Fetch{}.Run(c.Context(), files, os.Getenv("STATE_DIRECTORY"), credentials)
		},
	}
}

// prepareJob passes the files of a job on.
func prepareJob(c *cobra.Command, key string, dir func(key string) string) error {
	if err := paths.CheckKey(key); err != nil {
		return err
	}
	notifier, err := notifierOf(c)
	if err != nil {
		return err
	}
	return prepare.Installed().Job(c.Context(), dir(key), notifier)
}
