package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"codex-proxy/notify"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
)

func environmentPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "environment-prepare KEY", Short: "ready the build of an environment (codex-environment@.service)",
		Long: `
Opens the files of the order to build the environment KEY, and passes them to
environment-build through systemd. It is ExecStartPre of codex-environment@KEY.service and
runs as root: the files belong to codex-runner.service.`,
		RunE: func(c *cobra.Command, args []string) error { return prepareJob(c, args[0], paths.EnvironmentDir) },
	}
}

func environmentBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use: "environment-build KEY", Short: "build an environment (codex-environment@.service)",
		Long: `
Installs the packages of the environment KEY where sessions see them. It is the main
process of codex-environment@KEY.service.

Exit status: 0 if the result is written, also that of a build that failed; others for
faults of this program.`,
		RunE: func(c *cobra.Command, args []string) error {
			files, err := notify.InheritedFiles()
			if err != nil {
				return err
			}
			dir := filepath.Join(paths.Environments, args[0])
			return job.Build{}.Run(c.Context(), files, args[0], dir, os.Getenv("PATH"))
		},
	}
}
