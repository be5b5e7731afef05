package main

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remoteexec"
	"codex-proxy/remotes/remotenotify"
	runnerpaths "codex-proxy/runner/paths"
	"codex-proxy/units"
)

func remoteWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remote-wait NAME",
		Short: "wait for the rest of a remote's restart delay, and choose its codex (codex-remote@.service)",
		Long: `
Waits, where systemd has no growing restart delays (before 254), for what is left of
the delay, and chooses the copy of codex, as worker-wait does. It is ExecStartPre of
codex-remote@NAME.service, and runs as root.`,
		RunE: func(c *cobra.Command, args []string) error {
			return remoteexec.Wait(c.Context(), args[0], codexPolicy, c.ErrOrStderr())
		},
	}
}

func remoteExecCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remote-exec NAME", Short: "run and keep the codex of a remote (codex-remote@.service)",
		Long: `
Makes the CODEX_HOME of the remote NAME from /etc/codex-proxy/remotes/NAME.toml, has
codex check it if anything has changed, and runs codex in namespaces of its own, as the
main process of codex-remote@NAME.service. It lends codex the provider's key, which
it reads from standard input, or an account's login, and continues the turns that an
end of codex has cut. It connects clients of the unit's sockets to codex, and passes
on the requests that they may make. The exit status is that of codex; 150 after a time
without people and turns; 78 for a fault of the file.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := units.ValidRemoteName(args[0]); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			u := &remoteexec.Unit{
				Name: args[0], Version: versionString(), Key: os.Stdin, Init: paths.RemoteInit, Stderr: c.ErrOrStderr(),
				Logins: paths.LoginsSocket, Runner: runnerpaths.Socket, Cgroup: authz.Cgroup(),
				File: filepath.Join(cmp.Or(os.Getenv("CONFIGURATION_DIRECTORY"), paths.Settings), "remotes",
					args[0]+".toml"),
				Home: os.Getenv("CODEX_HOME"), Runtime: os.Getenv("RUNTIME_DIRECTORY"),
				Credentials: os.Getenv("CREDENTIALS_DIRECTORY"),
			}
			if u.Home == "" || u.Runtime == "" {
				return errors.New("CODEX_HOME and RUNTIME_DIRECTORY are not set: this is a command of " +
					"codex-remote@.service; `systemctl start codex-remote@" + args[0] + "`")
			}
			return u.Run(c.Context())
		},
	}
}

func remoteNotifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remote-notify NAME", Short: "run the command of a remote's [notify] (codex-remote-notify@.service)",
		Long: `
Runs the command of [notify] of the remote NAME for each notice that the remote sends to
codex-remote-notify@NAME.socket, which is standard input. It ends when no more come.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := units.ValidRemoteName(args[0]); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			hash := os.Getenv(remoteconfig.HashVariable)
			if err := os.Unsetenv(remoteconfig.HashVariable); err != nil {
				return err
			}
			s := &remotenotify.Server{
				File: filepath.Join(paths.RemoteSettings,
					args[0]+".toml"), Hash: hash, Socket: os.Stdin, UID: os.Getuid(),
				Logger: slog.New(journal.NewHandler(journal.Proxy, c.ErrOrStderr(), slog.LevelInfo)).With("remote",
					args[0]),
			}
			return s.Run(ctx)
		},
	}
}
