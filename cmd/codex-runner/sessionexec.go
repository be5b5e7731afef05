package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/notify"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
)

func sessionExecCommand() *cobra.Command {
	return &cobra.Command{
		Use: "session-exec", Short: "run a session's command (codex-session@.service)",
		Long: `
Makes the workspace, waits for the environment, runs the command that session-prepare has
passed on, writes its output to the log of the session, ends it at its limits or when it
is cancelled, and writes down how it ended. It is the main process of
codex-session@ID.service.

Exit status: 0 if the result is written, whatever became of the command; others for
faults of this program.`,
		RunE: func(c *cobra.Command, _ []string) error {
			score, err := exec.Hide()
			if err != nil {
				return err
			}
			defer score.Close()
			files, err := notify.InheritedFiles()
			if err != nil {
				return err
			}
			notifier, err := notifierOf(c)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), unix.SIGTERM)
			defer stop()
			shim := exec.Shim{
				Files: files, Notifier: notifier, Score: score, Workspace: paths.Workspace,
				Disk:        []string{paths.Workspace, os.Getenv("HOME"), "/tmp", "/var/tmp"},
				Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Environ: os.Environ(),
				Preparations: []exec.Preparation{
					exec.Workspace{
						Repository: paths.Repository, Record: files[paths.RecordFile], Tenant: files[paths.TenantFile],
					},
					exec.Patch{File: files[paths.PatchFile]},
					exec.Environment{Dir: paths.Environments, Path: os.Getenv("PATH")},
				},
			}
			return shim.Run(ctx)
		},
	}
}
