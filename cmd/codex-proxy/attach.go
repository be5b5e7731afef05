package main

import (
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/attach"
	"codex-proxy/units"
)

func attachCommand() *cobra.Command {
	a := attach.Attach{Sockets: paths.RemoteSockets, Codex: "codex", Stdin: os.Stdin}
	c := &cobra.Command{
		Use: "attach [REMOTE] [ARGUMENT...]", Short: "connect codex to a remote, with its last thread",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return attach.Names(paths.RemoteSockets), cobra.ShellCompDirectiveNoFileComp
		},
		Long: `
Runs the codex of this machine, connected to a remote: a codex session in a unit of
systemd, codex-remote@REMOTE.service, that goes on when nobody is attached. It shows
the thread that was used last, or begins the first one. A remote that is stopped
starts meanwhile. Without a name, attach takes the only remote of this machine.
ARGUMENTs are those of codex, such as a prompt. The exit status is that of codex.

To detach, leave codex with /quit, or close the terminal: the turn goes on. Several
people can be attached; each approval goes to all of them, and the first answer
counts. From another machine: ssh -t SERVER codex-proxy attach REMOTE.

Root, the user of the remote and the members of its group may attach: see user and
group in /etc/codex-proxy/remotes/REMOTE.toml. To attach is to have a shell with the
remote's rights; a viewer has none.`,
	}
	flags := c.Flags()
	flags.BoolVar(&a.New, "new", false, "begin a new thread")
	flags.Var(cli.Text(&a.Thread, "NAME"), "thread", "show this thread, by its name or id")
	flags.BoolVar(&a.ReadOnly, "read-only", false, `only watch: what changes something is refused, and
approvals go to the others`)
	flags.BoolVar(&a.Stdio, "stdio", false, `speak the protocol of codex app-server on standard
input and output, for editors and SDKs that start one`)
	flags.Var(cli.Text(&a.Codex, "PROGRAM"), "codex", "run this codex in place of the one in PATH")
	c.RunE = func(c *cobra.Command, args []string) error {
		manager := units.NewManager()
		defer manager.Close()
		a.Stdout, a.Stderr, a.Describe = c.OutOrStdout(), c.ErrOrStderr(), manager.Describe
		if len(args) > 0 {
			a.Remote, a.Args = args[0], args[1:]
		}
		status, err := a.Run(c.Context())
		if err != nil {
			return err
		}
		return cli.Exit(status, nil)
	}
	return c
}
