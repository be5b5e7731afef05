package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/here/herecli"
	"codex-proxy/remotes/here/hereexec"
	"codex-proxy/units"
)

func hereCommand() *cobra.Command {
	h := &herecli.Here{
		Systemd: units.NewManager(), Records: paths.HereRecords, Config: paths.CodexConfig, Proc: "/proc",
	}
	c := &cobra.Command{
		Use: "here", Short: "run a user's own codex in a unit that outlives terminals, crashes and upgrades",
		Long: `
Gives a user a unit for the own codex, codex-user@NAME.service, with the user's home,
configuration and login. After enable a bare codex in any directory runs its threads
there, as do codex resume, fork, queue and agents: they go on when the terminal
closes, and after a crash systemd starts codex again and cut turns go on. A new codex
on the disk is taken when no turn runs.

enable links codex's control socket, ~/.codex/app-server-control/app-server-control.sock,
to the unit's, ends codex's own daemon, and has codex start none, by /etc/codex/config.toml
if there is no such file. disable puts all that back. status shows the state, and what
keeps a codex from the unit; logs shows the journal.

Without a NAME these are about the user who calls sudo, or who calls them. enable and
disable need root: sudo codex-proxy here enable.`,
	}
	do := func(root bool, run func(context.Context, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) (err error) {
			h.Stdout, h.Stderr = c.OutOrStdout(), c.ErrOrStderr()
			defer h.Systemd.Close()
			if root && os.Geteuid() != 0 {
				return fmt.Errorf("only root may do this: sudo codex-proxy here %s", c.Name())
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			} else if !h.All {
				name, err = herecli.Name()
			}
			if err == nil && name != "" {
				err = units.ValidUserName(name)
			}
			if err != nil {
				return err
			}
			return run(c.Context(), name)
		}
	}
	enable := &cobra.Command{Use: "enable [NAME]", Short: "give a user a unit for the own codex",
		RunE: do(true, h.Enable)}
	disable := &cobra.Command{Use: "disable [NAME]", Short: "take the unit away, and put all back",
		RunE: do(true, func(ctx context.Context, name string) error {
			if h.All {
				return h.DisableAll(ctx)
			}
			return h.Disable(ctx, name)
		})}
	status := &cobra.Command{Use: "status [NAME]", Short: "show the state of the unit, and who is attached",
		RunE: do(false, h.Status)}
	for _, of := range []*cobra.Command{disable, status} {
		of.Flags().BoolVar(&h.All, "all", false, "of all users")
	}
	status.Flags().BoolVar(&h.JSON, "json", false, `one JSON object:
  {"users":[{"user","unit","active_state",
    "status_text","listening","linked","instead",
    "daemons","codex","attached":[{"user",
    "program","since"}],"turns":[{"thread","since",
    "waiting_since","continued"}],"last","words",
    "continued","given_up","rests_at","error"}]}`)
	c.AddCommand(enable, disable, status, hereAccounts(h, do), hereLogs(h, do))
	return c
}

func hereAccounts(
	h *herecli.Here, do func(bool, func(context.Context, string) error) func(*cobra.Command, []string) error,
) *cobra.Command {
	c := &cobra.Command{
		Use: "accounts [NAME]", Short: "have accounts of codex-proxy serve a user's own codex",
		RunE: do(true, h.Accounts),
		Long: `
Shows whose login serves the codex of a user. With --lend it is accounts of codex-proxy,
in place of the user's login, which stays in its file: a turn whose account has no quota
any more goes on with the next one, and waits if none has. With --own it is the login of
the user again. The unit takes a change as soon as no turn runs. Lend accounts to users
that may use them: docs/security.md has what they can reach.`,
	}
	c.Flags().Var(cli.Text(&h.Lend, "LIST"), "lend",
		"the accounts, by the names of their workers, with a comma\nbetween them; all: each of them")
	c.Flags().BoolVar(&h.Own, "own", false, "the user's own login serves again")
	return c
}

func hereLogs(
	h *herecli.Here, do func(bool, func(context.Context, string) error) func(*cobra.Command, []string) error,
) *cobra.Command {
	var follow bool
	lines := 50
	logs := &cobra.Command{Use: "logs [NAME]", Short: "show the journal of the unit"}
	logs.RunE = do(false, func(_ context.Context, name string) error {
		options := []string{"-n", strconv.Itoa(lines)}
		if follow {
			options = append(options, "-f")
		}
		return h.Logs(name, options...)
	})
	logs.Flags().BoolVarP(&follow, "follow", "f", false, "go on with every new line, until Ctrl-C")
	logs.Flags().IntVarP(&lines, "lines", "n", lines, "how many lines")
	return logs
}

func hereWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "here-wait NAME", Short: "wait for the rest of a restart delay, and copy codex (codex-user@.service)",
		Long: `
Waits, where systemd has no growing restart delays (before 254), for what is left of
the delay, and copies the installed codex, if root alone can change it. It is
ExecStartPre of codex-user@NAME.service, and runs as root.`,
		RunE: func(c *cobra.Command, args []string) error {
			return hereexec.Wait(c.Context(), args[0], codexPolicy, c.ErrOrStderr())
		},
	}
}

func hereExecCommand() *cobra.Command {
	return &cobra.Command{
		Use: "here-exec NAME", Short: "run the own codex of a user (codex-user@.service)",
		Long: `
Runs codex app-server as the user NAME, as the main process of codex-user@NAME.service.
It answers clients while codex starts, gives each thread the variables of the shell
that its client runs in, and continues the turns that an end of codex has cut. The exit
status is that of codex; 150 after a time without clients and turns; 78 for a fault of
the settings.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := units.ValidUserName(args[0]); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			u := &hereexec.Unit{
				Name: args[0], Version: versionString(), Home: os.Getenv("HOME"), State: os.Getenv("STATE_DIRECTORY"),
				Runtime: os.Getenv("RUNTIME_DIRECTORY"), Records: paths.HereRecords, Cgroup: authz.Cgroup(),
				Stderr: c.ErrOrStderr(),
				Machine: filepath.Join(cmp.Or(os.Getenv("CONFIGURATION_DIRECTORY"), paths.Settings),
					filepath.Base(paths.HereSettings)),
			}
			if u.Home == "" || u.State == "" || u.Runtime == "" {
				return errors.New("HOME, STATE_DIRECTORY and RUNTIME_DIRECTORY are not set: this is a command of " +
					"codex-user@.service; `systemctl start codex-user@" + args[0] + "`")
			}
			return u.Run(c.Context())
		},
	}
}
