package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/dependencies/dependenciescli"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/units"
)

func dependenciesCommand() *cobra.Command {
	d := &dependenciescli.Dependencies{
		Systemd: units.NewManager(), Etc: paths.Settings, Settings: paths.DependencySettings,
		Presets: paths.DependencyPresets, States: paths.DependencyStates,
		PrivateStates: paths.PrivateDependencyStates, Units: paths.OperatorUnits,
	}
	c := &cobra.Command{
		Use: "dependencies", Short: "list, add, check and remove the servers beside codex-proxy",
		Long: `
Keeps the dependencies: servers beside codex-proxy, such as a database or a model
server. Each has a file, /etc/codex-proxy/dependencies/NAME.toml, and a unit,
codex-dependency@NAME.service, by which systemd starts it, checks its health and
restarts it. codex-dependency.toml(5) has the keys of the file.

add makes a file of a preset and starts nothing; systemctl start, stop, restart and
enable do that. list shows the state of each dependency and why, its check, its
restarts, and the units that require it; it does not need the service. check shows
what would run, as which user, what it may write to and reach, and names each fault
that prevents a start; it exits with 78 then. remove stops a dependency and takes its
file and unit away, unless a setting requires it; its data stay without --purge.
All but list need root.`,
	}
	socket := controlFlag(c.PersistentFlags())
	do := func(run func(context.Context, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			d.Stdout, d.Stderr, d.Socket = c.OutOrStdout(), c.ErrOrStderr(), socket()
			defer d.Systemd.Close()
			if len(args) == 0 {
				return run(c.Context(), "")
			}
			if os.Geteuid() != 0 {
				return errors.New("only root may do this: try sudo")
			}
			if err := units.ValidDependencyName(args[0]); err != nil {
				return err
			}
			return run(c.Context(), args[0])
		}
	}
	list := &cobra.Command{Use: "list", Short: "list the dependencies, with their state and why", RunE: do(d.List)}
	list.Flags().BoolVar(&d.JSON, "json", false, `one JSON object:
  {"dependencies":[{"name","unit","active_state",
    "sub_state","ready","reason","status_text",
    "since","restarts_total","next_restart_at",
    "last_exit","required_by","check","interval",
    "at_ready","at_boot","error"}]}`)
	list.Flags().BoolVar(&d.Watch, "watch", false, "again after every change, until Ctrl-C")
	add := &cobra.Command{Use: "add NAME", Short: "make a dependency of a preset", RunE: do(d.Add)}
	add.Flags().Var(cli.Text(&d.Preset, "PRESET"), "preset", `the preset: http, mcp, postgresql, template or temporal.
Without it the preset called NAME, or template, which has every key.
They are in `+paths.DependencyPresets)
	add.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return presets()
	}
	check := &cobra.Command{
		Use: "check NAME", Short: "show what would run, and what prevents a start",
		ValidArgsFunction: completeDependencies, RunE: checkDependency(d, do),
	}
	remove := &cobra.Command{
		Use: "remove NAME", Short: "stop a dependency, and remove it",
		ValidArgsFunction: completeDependencies, RunE: do(d.Remove),
	}
	remove.Flags().BoolVar(&d.Purge, "purge", false, "remove its data and the drop-ins of systemctl edit, too")
	c.AddCommand(list, add, check, remove)
	_ = add.RegisterFlagCompletionFunc("preset", // the option is there
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return presets() })
	return c
}

// checkDependency checks a dependency for an operator, or as the command of its unit.
func checkDependency(
	d *dependenciescli.Dependencies, do func(func(context.Context, string) error) func(*cobra.Command, []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		notifier, err := notify.FromEnv(slog.New(journal.NewHandler(journal.Proxy, c.ErrOrStderr(), slog.LevelInfo)))
		if err != nil {
			return err
		}
		if notifier != nil {
			return d.Report(args[0], notifier)
		}
		return do(d.Check)(c, args)
	}
}

// presets are the words for the name of a preset, and for a dependency that is made of the preset of its name.
func presets() ([]string, cobra.ShellCompDirective) {
	names, _ := dependenciescli.PresetNames(paths.DependencyPresets) // without a list there is nothing to complete
	return names, noFiles
}

// completeDependencies completes the first argument by the names of the dependencies.
func completeDependencies(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	names, _ := dependencyconfig.Names(paths.DependencySettings) // without names there is nothing to complete
	return names, noFiles
}
