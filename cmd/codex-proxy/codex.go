package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"codex-proxy/codex/copies"
	"codex-proxy/daemon/config"
	"codex-proxy/units"
	"codex-proxy/workers/codexcli"
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
