package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/workers/canaryunit"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/prepare"
	"codex-proxy/workers/upgrade"
)

func canaryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "codex-canary COPY", Short: "try a codex that no client has used yet (codex-canary@.service)",
		Long: `
Runs the copy of codex called COPY with the settings of workers and remotes, and tries
it against a model in this process: its settings, its protocol, the list of models, a
plain turn, one with a tool, one with an image, and a continued one. It needs no network
and no login. The main process of codex-canary@COPY.service, which codex-copies.service
and "codex-proxy codex try" start.`,
		RunE: func(c *cobra.Command, args []string) error {
			return canaryunit.Main(c.Context(), args[0], versionString(), c.ErrOrStderr())
		},
	}
}

func canaryEndCommand() *cobra.Command {
	return &cobra.Command{
		Use: "codex-canary-end COPY", Short: "carry out the verdict of a trial (codex-canary@.service)",
		Long: `
Puts the copy of codex called COPY into use if it has passed its trial, and holds it
back if it has not. ExecStopPost of codex-canary@COPY.service, as root.`,
		RunE: func(c *cobra.Command, args []string) error {
			return canaryunit.End(c.Context(), prepare.Store(), args[0], c.ErrOrStderr())
		},
	}
}

// copiesIdle is how long codex-copies.service waits for the next request.
const copiesIdle = 2 * time.Second

func copiesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "codex-copies", Short: "do the steps of root in a change of codex (codex-copies.service)",
		Long: `
Takes a copy of a codex that is newly installed and has it tried, or goes back to the
one before, when the daemon asks for it. It ends a moment after a request. Run by
codex-copies.service, which codex-copies.socket starts.`,
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		systemd := units.NewManager()
		defer systemd.Close()
		service := socketservice.Service{
			Command: c.CommandPath(), Socket: paths.CopiesSocketName, Leaving: "Finishing a step",
			Load: func(logger *slog.Logger) (socketservice.Server, string, error) {
				store := prepare.Store()
				store.Confined = true
				steps := &upgrade.Steps{Store: store, Policy: codexPolicy, Find: codexhome.Installed,
					Try: systemd.Start, Logger: logger}
				return steps.NewServer(copiesIdle), "Ready", nil
			},
		}
		return service.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}
