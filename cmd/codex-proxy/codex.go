package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/codex/copies"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/workers/canaryunit"
	"codex-proxy/workers/codexcli"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/prepare"
	"codex-proxy/workers/upgrade"
)

// codexPolicy is the policy of the settings.
func codexPolicy() (copies.Policy, error) {
	places, err := config.LoadPlaces(config.DefaultPath)
	return places.Codex, err
}

// codexNotes are the sentences of status on the codex of this machine.
func codexNotes() []string {
	policy, err := codexPolicy()
	if err != nil {
		policy = ""
	}
	return codexcli.Notes(codexcli.Here(policy).Report())
}

func codexCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "codex", Short: "list the copies of codex, and choose the one in use",
		Long: `
Workers and remotes run a copy of the codex that is installed, so that an installation
changes nothing under a running one. codex in config.toml says which copy they take
at a start. codex-proxy installs no codex: npm does.

list shows the copies, which of them is in use, and what is installed. try has a
version tried in a unit of its own, codex-canary@.service, without a network or login,
and puts it into use if it passes. use puts a version into use that is kept or
installed, tried or not; hold keeps what is in use. Both last until follow. Run all but
list as root.`,
	}
	do := func(run func(context.Context, *codexcli.Orders, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			if os.Geteuid() != 0 {
				return errors.New("only root may do this: try sudo")
			}
			policy, err := codexPolicy()
			if err != nil {
				return err
			}
			systemd := units.NewManager()
			defer systemd.Close()
			o := codexcli.Here(policy)
			o.Out, o.Start = c.OutOrStdout(), systemd.Start
			return run(c.Context(), o, strings.Join(args, ""))
		}
	}
	list := &cobra.Command{Use: "list", Short: "list the copies, and what is installed"}
	asJSON := list.Flags().Bool("json", false, "one JSON object")
	list.RunE = func(c *cobra.Command, _ []string) error {
		policy, err := codexPolicy()
		if err != nil { // not all users may read it
			policy = ""
		}
		o := codexcli.Here(policy)
		o.Out, o.JSON = c.OutOrStdout(), *asJSON
		return o.List()
	}
	c.AddCommand(list,
		&cobra.Command{Use: "try VERSION", Short: "try a version, and use it if it passes",
			RunE: do(func(ctx context.Context, o *codexcli.Orders, version string) error { return o.Try(ctx, version) })},
		&cobra.Command{Use: "use VERSION", Short: "put a version into use, and keep it",
			RunE: do(func(ctx context.Context, o *codexcli.Orders, version string) error { return o.Use(ctx, version) })},
		&cobra.Command{Use: "hold", Short: "keep the version in use",
			RunE: do(func(ctx context.Context, o *codexcli.Orders, _ string) error { return o.Hold(ctx) })},
		&cobra.Command{Use: "follow", Short: "go by config.toml again, after use or hold",
			RunE: do(func(ctx context.Context, o *codexcli.Orders, _ string) error { return o.Follow(ctx) })},
	)
	return c
}

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
