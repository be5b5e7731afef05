package main

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"codex-proxy/console/proxyorders"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/attach"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotescli"
	"codex-proxy/remotes/transcript"
	runnerpaths "codex-proxy/runner/paths"
	"codex-proxy/units"
)

func remotesCommand() *cobra.Command {
	r := &remotescli.Remotes{
		Systemd: units.NewManager(),
		Places: remotescli.Places{
			Settings: paths.RemoteSettings, Template: paths.RemoteTemplate, Homes: paths.RemoteHomes,
			PrivateHomes: paths.PrivateRemoteHomes, Units: paths.OperatorUnits, Socket: paths.RemoteSocket,
			Runner: runnerpaths.Socket,
		},
	}
	c := &cobra.Command{
		Use: "remotes", Short: "list, add, check, use and remove codex sessions that outlive terminals",
		Long: `
Keeps the remotes: codex sessions that live in units of systemd. Each has a file,
/etc/codex-proxy/remotes/NAME.toml, and two units, codex-remote@NAME.service and
codex-remote@NAME.socket. A connection to the socket starts the service; systemd
restarts it after a crash, and then the turns go on that the crash has cut.
codex-remote.toml(5) has the keys of the file.

add makes a file, and opens the socket; codex-proxy attach NAME shows the remote in a
terminal. list shows the state of each remote, its turns and the people who are
attached. check shows what would run, and names each fault that prevents a start; it
exits with 78 then. send sends a message without a terminal, and prints the thread.
transcript prints a thread, approve answers what a turn waits for, and interrupt ends
the turn.
continue has a turn go on that a restart has cut, if the file says continue = "ask".
logs shows the journal of its units. commands lists what the hands of a remote have
executed, and diff prints the changes in their workspace (docs/hands.md). stop ends codex until the next attach. remove
takes a remote away; its threads stay without --purge. add, check, diff, stop and
remove need root.`,
	}
	do := func(root bool, run func(context.Context, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			r.Stdout, r.Stderr = c.OutOrStdout(), c.ErrOrStderr()
			defer r.Systemd.Close()
			if root && os.Geteuid() != 0 {
				return errors.New("only root may do this: try sudo")
			}
			if len(args) == 0 {
				return run(c.Context(), "")
			}
			if err := units.ValidRemoteName(args[0]); err != nil {
				return err
			}
			return run(c.Context(), args[0])
		}
	}
	list := &cobra.Command{Use: "list", Short: "list the remotes, with their state, turns and people",
		RunE: do(false, func(ctx context.Context, name string) error {
			r.Control = controlSocket(config.DefaultPath)
			return r.List(ctx, name)
		})}
	list.Flags().BoolVar(&r.JSON, "json", false, remotesJSON)
	list.Flags().BoolVar(&r.Watch, "watch", false, "again after every change, until Ctrl-C")
	add := &cobra.Command{Use: "add NAME", Short: "make a remote", RunE: do(true, r.Add)}
	addFlags(add, &r.With)
	check := &cobra.Command{Use: "check NAME", Short: "show what would run, and what prevents a start",
		RunE: do(true, r.Check)}
	send := &cobra.Command{
		Use: "send NAME TEXT...", Short: "send a message to a remote; - reads it from the standard input",
		RunE: func(c *cobra.Command, args []string) error {
			return do(false, func(ctx context.Context, name string) error {
				text, err := remotescli.Message(args[1:], c.InOrStdin())
				if err != nil {
					return err
				}
				return r.Send(ctx, name, text)
			})(c, args)
		},
	}
	proceed := &cobra.Command{
		Use: "continue NAME", Short: "have a turn go on that a restart has cut", RunE: do(false, r.Continue),
	}
	for _, one := range []*cobra.Command{send, proceed} {
		one.Flags().Var(cli.Text(&r.Thread, "THREAD"), "thread", ofThread)
	}
	stop := &cobra.Command{Use: "stop NAME", Short: "stop a remote until the next attach", RunE: do(true, r.Stop)}
	remove := &cobra.Command{Use: "remove NAME", Short: "stop a remote, and remove it", RunE: do(true, r.Remove)}
	remove.Flags().BoolVar(&r.Purge, "purge", false, "remove its threads and the drop-ins of systemctl edit, too")
	c.AddCommand(list, add, check, send, proceed,
		remoteJournal("logs NAME", "show the journal of a remote", r.Logs, do),
		remoteJournal("commands NAME", "list the commands that the hands of a remote have executed", r.Commands, do),
		remoteDiff(r, do(true, r.Diff)), stop, remove)
	c.AddCommand(remotePerson(r)...)
	for _, of := range c.Commands() {
		if of != list && of != add {
			of.ValidArgsFunction = completeRemotes
		}
	}
	return c
}

func addFlags(add *cobra.Command, with *remotescli.Answers) {
	flags := add.Flags()
	flags.Var(cli.Text(&with.Directory, "DIR"), "dir", "the directory that codex works in")
	flags.Var(cli.Text(&with.User, "USER"), "user", "the user that it runs as; without it a user of its own")
	flags.Var(cli.Text(&with.Group, "GROUP"), "group",
		"the group whose members may attach; without it root and USER alone")
	flags.Var(cli.Text(&with.Network, "NETWORK"), "network", "what codex and its tools reach: none, loopback or all")
	flags.Var(cli.Text(&with.Sandbox, "SANDBOX"), "sandbox", "what they may write: read-only or workspace-write")
	flags.Var(cli.Text(&with.Model, "MODEL"), "model",
		"the model; without it codex's own choice, except with --base-url")
	flags.Var(cli.Text(&with.BaseURL, "URL"), "base-url",
		"an endpoint of the model in place of the accounts, which speaks OpenAI's Responses API")
	flags.Var(cli.Text(&with.KeyFile, "FILE"), "key-file", "the file with the key of the endpoint")
	flags.Var(cli.Text(&with.CodexPath, "PATH"), "codex-path", "the codex to run; without it the one that is installed")
	flags.Var(cli.Text(&with.Hands.By, "runner"), "hands", `have codex-runner execute the commands, in a checkout
of --repo: codex itself has no file of the project then. Or a URL, wss://HOST/PATH:
codex exec-server on another host does`)
	flags.Var(cli.Text(&with.Hands.TokenFile, "FILE"), "token-file",
		"the file with the token of the exec-server at --hands URL")
	flags.Var(cli.Text(&with.Hands.CAFile, "FILE"), "ca-file",
		"the file with its certificate authority; without it those of the system")
	flags.Var(cli.Text(&with.Hands.Repo, "DIR"), "repo", "the repository of the hands: a directory or a URL")
	flags.Var(cli.Text(&with.Hands.Ref, "REF"), "ref", "its branch, tag or commit; without it the one of HEAD")
	flags.Var(cli.Text(&with.Hands.Memory, "SIZE"), "memory", "the memory of the hands, such as 4G")
	cli.Complete(add, "hands", "runner")
	cli.Complete(add, "network", string(remoteconfig.NoNetwork), string(remoteconfig.Loopback),
		string(remoteconfig.AllOfIt))
	cli.Complete(add, "sandbox", string(remoteconfig.ReadOnly), string(remoteconfig.WorkspaceWrite))
}

func remoteDiff(r *remotescli.Remotes, run func(*cobra.Command, []string) error) *cobra.Command {
	c := &cobra.Command{
		Use: "diff NAME", Short: "print the changes in the workspace of a remote's hands, as a patch", RunE: run,
	}
	c.Flags().Var(cli.Text(&r.Branch, "NAME"), "branch", `make this branch of them instead, in the directory of the
remote's file, on top of the commit that the workspace began
with`)
	return c
}

// remoteJournal is a command that shows entries of the journal of a remote.
func remoteJournal(use, short string, show func(name string, options ...string) error,
	do func(bool, func(context.Context, string) error) func(*cobra.Command, []string) error) *cobra.Command {
	var follow bool
	lines := 50
	c := &cobra.Command{Use: use, Short: short}
	c.RunE = do(false, func(_ context.Context, name string) error {
		options := []string{"-n", strconv.Itoa(lines)}
		if follow {
			options = append(options, "-f")
		}
		return show(name, options...)
	})
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with every new line, until Ctrl-C")
	c.Flags().IntVarP(&lines, "lines", "n", lines, "how many lines")
	return c
}

// completeRemotes completes the first argument by the names of the remotes.
func completeRemotes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	names, _ := remoteconfig.Names(paths.RemoteSettings) // without a list there is nothing to complete
	return names, noFiles
}

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

// remotePerson are the commands by which a person takes part in a remote without a terminal.
func remotePerson(r *remotescli.Remotes) []*cobra.Command {
	with := func(args func(*transcript.Remote) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, names []string) error {
			r.Stdout, r.Stderr = c.OutOrStdout(), c.ErrOrStderr()
			if err := units.ValidRemoteName(names[0]); err != nil {
				return err
			}
			of, err := r.Person(names[0], versionString(), false)
			if err != nil {
				return err
			}
			return args(&of)
		}
	}
	show := &cobra.Command{Use: "transcript NAME", Short: "print the last turns of a thread of a remote"}
	show.Flags().BoolVar(&r.JSON, "json", false, remotesJSON)
	show.Flags().BoolVar(&r.Watch, "watch", false, "again after every change, until Ctrl-C")
	show.RunE = func(c *cobra.Command, names []string) error {
		return with(func(of *transcript.Remote) error {
			of.ReadOnly = !r.Watch // without it nobody could answer in time
			return remotescli.Transcript(c.Context(), r, *of)
		})(c, names)
	}
	decision := "accept"
	approve := &cobra.Command{Use: "approve NAME QUESTION", Short: "answer an approval that a turn waits for"}
	approve.Flags().Var(cli.Text(&decision, "DECISION"), "decision", "accept, acceptForSession or decline")
	cli.Complete(approve, "decision", "accept", "acceptForSession", "decline")
	approve.RunE = func(c *cobra.Command, names []string) error {
		return with(func(of *transcript.Remote) error {
			return of.Approve(c.Context(), r.Thread, names[1], decision)
		})(c, names)
	}
	interrupt := &cobra.Command{Use: "interrupt NAME", Short: "end the turn of a thread of a remote, as Esc does"}
	interrupt.RunE = func(c *cobra.Command, names []string) error {
		return with(func(of *transcript.Remote) error { return of.Interrupt(c.Context(), r.Thread) })(c, names)
	}
	for _, one := range []*cobra.Command{show, approve, interrupt} {
		one.Flags().Var(cli.Text(&r.Thread, "THREAD"), "thread", ofThread)
	}
	return []*cobra.Command{show, approve, interrupt}
}

// remotesJSON is the text of --json.
const remotesJSON = `JSON. Of list one object:
  {"remotes":[{"name","unit","active_state","sub_state",
    "status_text","since","restarts","listening",
    "at_boot","directory","user","codex",
    "attached":[{"user","viewer","program",
      "since"}],
    "turns":[{"thread","since","waiting_since",
    "alone_since","continued","cut","quota"}],"last",
    "words","words_at","continued","given_up",
    "account","switches","no_account","quota_at",
    "unknown_requests",
    "ends":{"turns","faults","fault"},
    "rests_at","error"}]}.
Of transcript an object a line:
  {"thread","name","turn","waits",
    "questions":[{"id","kind","text","directory",
      "reason","decisions"}],
    "items":[{"id","kind","text","output","status",
      "exit"}]}`

// ofThread is the text of --thread.
const ofThread = `the thread.
For send its name or id; without it the last one, or a new one.
For continue its id; not needed if one turn waits.
For transcript, approve and interrupt its id; without it the last one`

// remoteOf is the remote of an order of the page.
func remoteOf(readOnly bool) func(string) (proxyorders.Remote, error) {
	r := remotescli.Remotes{Places: remotescli.Places{Settings: paths.RemoteSettings, Socket: paths.RemoteSocket}}
	return func(name string) (proxyorders.Remote, error) {
		if err := units.ValidRemoteName(name); err != nil {
			return nil, err
		}
		of, err := r.Person(name, versionString(), readOnly)
		return person{of}, err
	}
}

// person is a remote for the orders of the page.
type person struct{ transcript.Remote }

// Follow implements proxyorders.Remote. Every change of the thread, and the end of the remote, is for the page.
func (p person) Follow(ctx context.Context, thread string, each func(any) error) error {
	err := p.Remote.Follow(ctx, thread, func(u transcript.Update) error { return each(u) })
	if err == nil {
		return errors.New("the remote has no thread yet: a message begins one")
	}
	return err
}
