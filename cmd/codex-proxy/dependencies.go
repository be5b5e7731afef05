package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/dependencies/dependenciescli"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/dependencies/prepare"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/units"
	"codex-proxy/units/requires"
	"codex-proxy/workers/shim"
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

func dependencyPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dependency-prepare NAME",
		Short: "look for other owners of a dependency's data (codex-dependency@.service)",
		Long: `
Waits, where systemd has no growing restart delays (before 254), for what is left of
the delay, as worker-wait does. Then it looks for processes that hold what the
dependency needs for itself: its lock, its ports, and files of its data that are open
for writing. If there are any, it leaves their pids, command lines and units to
notify-exec --refused, which ends the start without a restart. It is the first
ExecStartPre of codex-dependency@NAME.service, and runs as root, because only root can
see the open files of other users.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepare.Dependency(c.Context(), args[0], c.ErrOrStderr())
		},
	}
}

func dependencyBoundCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dependency-bound record|start NAME UNIT...", Short: "start what is bound to a dependency with it again",
		Long: `
Is part of codex-dependency@NAME.service if units are bound to it (bind_requires).
When the dependency ends, record notes which of the units that stops. When the
dependency is ready again, start starts them. What an operator has stopped before that
end stays stopped.`,
		RunE: func(c *cobra.Command, args []string) error {
			manager := units.NewManager()
			defer manager.Close()
			bound := requires.Bound{Dir: paths.DependencyBound, Systemd: manager}
			if err := units.ValidDependencyName(args[1]); err != nil {
				return err
			}
			switch args[0] {
			case "record":
				return bound.Record(c.Context(), args[1], args[2:])
			case "start":
				return bound.Start(c.Context(), args[1], args[2:])
			}
			return fmt.Errorf("there is no %q; use record or start", args[0])
		},
	}
}

func lockExecCommand() *cobra.Command {
	var owner shim.Owner
	c := &cobra.Command{
		Use:   "lock-exec [OPTION]... -- COMMAND [ARG]...",
		Short: "run a command before notify-exec, under its lock (codex-dependency@.service)",
		Long: `
Becomes COMMAND, with the lock of --lock. If another process holds the lock, or the
start of the unit is refused, it ends without COMMAND and with status 0: notify-exec
reports that afterwards, with the same options, as the main process of the unit. It is
the ExecStartPre= for the prepare command of a dependency.

Exit status: that of COMMAND; 64 for wrong usage; 203 if COMMAND cannot be started.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Exit(cli.Usage, errors.New("no command: put it last, after --, as in lock-exec "+
					"--lock my.service:/var/lib/my -- COMMAND ARG"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return owner.Exec(c.Context(), args) },
	}
	ownerFlags(c.Flags(), &owner)
	c.Flags().SetInterspersed(false) // the options after COMMAND are its own
	return c
}
