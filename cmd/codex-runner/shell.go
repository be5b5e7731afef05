package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/sessions"
)

func shellCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "shell ID", Short: "open a shell in the sandbox of a command",
		Long: `
Opens a shell in the sandbox of the command of the session ID that runs, or that run
--hold-on-failure holds: with its user, workspace, environment and limits. It ends with
the command. Exit status: that of the shell.`,
	}
	connect := socketFlag(c.Flags())
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := checked(c, args[0])
		if err != nil {
			return err
		}
		// The terminal has to be restored at the end.
		ctx, stop := signal.NotifyContext(c.Context(), unix.SIGTERM, unix.SIGHUP)
		defer stop()
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, unix.SIGWINCH)
		defer signal.Stop(resized)
		shell := sessions.Shell{Client: connect(), Stdin: c.InOrStdin(), Term: os.Getenv("TERM"), Resized: resized}
		defer shell.Client.Close()
		return shell.Open(ctx, id)
	}
	return c
}
