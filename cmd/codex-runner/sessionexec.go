package main

import (
	"log/slog"
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
Runs the command that session-prepare has passed on, writes its output to the log of the
session, ends it at its limits or when it is cancelled, and writes down how it ended. It
is the main process of codex-session@ID.service.

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
			notifier, err := notify.FromEnv(slog.New(slog.NewJSONHandler(c.ErrOrStderr(), nil)))
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), unix.SIGTERM)
			defer stop()
			shim := exec.Shim{
				Files: files, Notifier: notifier, Score: score, Workspace: paths.Workspace,
				Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Environ: os.Environ(),
			}
			return shim.Run(ctx)
		},
	}
}
