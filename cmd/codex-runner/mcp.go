package main

import (
	"io"
	"log/slog"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/mcpserver"
)

// beat is the time between two progress notifications, as a person expects them.
const beat = time.Second

func mcpCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "mcp", Short: "give a coding agent the runner as tools (MCP)",
		Long: `
Serves the Model Context Protocol on standard input and output, for a coding agent that
starts it: the tools run, patch, logs, cancel, sessions, show, artifacts and artifact do
what the commands of these names do, as the user of this command. It ends when its
input does; commands that a call of the agent waits for are cancelled then.

codex, in ~/.codex/config.toml:
  [mcp_servers.runner]
  command = "codex-runner"
  args = ["mcp"]

Exit status: 0 when the agent has gone.`,
	}
	connect := socketFlag(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if cli.IsTerminal(c.InOrStdin()) {
			return cli.Misuse(c, "it is for coding agents, which start it themselves: set it up in the settings of yours")
		}
		ctx, stop := signal.NotifyContext(c.Context(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		defer stop()
		server := mcpserver.New(mcpserver.Settings{
			Client: connect(), Version: versionString(), Beat: beat,
			Logger: slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		defer server.Client.Close()
		return server.Run(ctx, io.NopCloser(c.InOrStdin()), closing{c.OutOrStdout()})
	}
	return c
}

// closing is the standard output, which stays open.
type closing struct{ io.Writer }

func (closing) Close() error { return nil }
