package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

func runCommand() *cobra.Command {
	r, patch, setup, server := &sessions.Run{}, "", "", execServer{}
	c := &cobra.Command{
		Use: "run [OPTION]... -- COMMAND [ARG]...", Short: "run a command in a session",
		Long: `
Runs COMMAND in a new session: in a sandbox of its own, with the repository of --repo
in the working directory, under limits. Its output and standard error become those of
this command. With --session it is the next command of a session that is there: it
runs after those before it, in the same workspace and environment. Without --detach or
--keep, a new session is closed when COMMAND has ended; its record, output and
artifacts stay until they are pruned.

With --exec-server the command is codex's exec-server, and COMMAND, if it is given, names
the codex. A codex elsewhere has its commands, patches and accesses to files executed in
the session: codex-runner port-forward ID 18900 leads there.

Ctrl-C cancels COMMAND and waits for its end; a second one leaves it. If the service
restarts meanwhile, COMMAND goes on, and its output as well, without a gap.

Exit status: that of COMMAND; 128+n if the signal n ended it; 124 if it ran longer than
its time; 126 if it cannot be executed, and 127 if it is not found; 130 if it was
cancelled; 137 if it ran out of memory; 125 for every other reason of the runner; 64
for wrong usage, and 75 if the queue is full or the service stops. For all but a
COMMAND that fails by itself, the reason is on standard error.`,
		Args: func(c *cobra.Command, args []string) error {
			if server.wanted {
				return server.command(c, r, patch, args)
			}
			if server.tokenFile != "" {
				return cli.Misuse(c, "--token-file has the token of --exec-server: give both or none")
			}
			if len(args) == 0 {
				return cli.Misuse(c, "COMMAND is missing: put it last, after --")
			}
			r.Command.Args = args
			return checkRun(c, r, patch)
		},
	}
	flags := c.Flags()
	sourceFlags(flags, r, &patch)
	setupFlag(flags, &setup)
	commandFlags(flags, r)
	streamFlags(flags, r)
	limitFlags(flags, r)
	server.flags(flags)
	flags.BoolVar(&r.Keep, "keep", false, "leave the new session open for further commands (--session)")
	flags.BoolVar(&r.Detach, "detach", false, "print the ID of the session, and do not wait")
	flags.BoolVar(&r.DryRun, "dry-run", false, `show what would run, and run nothing: the workspace, the
environment or set-up, the network, programs, the unit and
limits`)
	flags.BoolVar(&r.JSON, "json", false, `one JSON object in place of the output: the session with
COMMAND and how it ended, as show --json has them; with
--dry-run the plan; for an error of the service
  {"error":{"code","message","remedy"}}`)
	connect := socketFlag(flags)
	flags.SetInterspersed(false) // the options after COMMAND are its own
	cli.Complete(c, "env", "auto", "setup", "none", "conda", "micromamba")
	_ = c.RegisterFlagCompletionFunc("session", // the option is there
		func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return sessionIDs(c.Context(), connect()), noFiles
		})
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		r.Stdin, r.Stdout, r.Stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		if r.New.SetUp, err = sessions.ReadSetup(setup); err != nil {
			return sessions.Status(err, sessions.RunnerFailed)
		}
		if patch != "" { // before signals are caught, as nothing else ends a read
			if r.New.Patch, err = sessions.ReadPatch(patch, r.Stdin); err != nil {
				return err
			}
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		defer signal.Stop(signals)
		// A closed pipe is an error of a write then, and does not end this program before COMMAND.
		pipe := make(chan os.Signal, 1)
		signal.Notify(pipe, unix.SIGPIPE)
		defer signal.Stop(pipe)
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, unix.SIGWINCH)
		defer signal.Stop(resized)
		r.Term, r.Resized = os.Getenv("TERM"), resized
		r.Client, r.Signals = connect(), signals
		defer r.Client.Close()
		return r.Run(c.Context())
	}
	return c
}

// checkRun refuses options that exclude each other.
func checkRun(c *cobra.Command, r *sessions.Run, patch string) error {
	if patch == "-" && r.StdinFile == "-" {
		return cli.Misuse(c, "--patch - and --stdin - want the same input")
	}
	if r.New.Ref != "" && r.Source == "" {
		return cli.Misuse(c, "--ref is one of a repository: name it with --repo")
	}
	if patch != "" && r.Source == "" {
		return cli.Misuse(c, "--patch changes a repository: name it with --repo")
	}
	if err := cmp.Or(checkChanges(c, r), checkStreams(c, r)); err != nil {
		return err
	}
	if r.Session == "" {
		return nil
	}
	if _, err := checked(c, r.Session); err != nil {
		return err
	}
	for _, name := range []string{"repo", "ref", "patch", "dirty", "clean", "env", "setup", "network", "secret",
		"hold-on-failure", "keep",
		"dry-run"} {
		if c.Flags().Changed(name) {
			return cli.Misuse(c, "--%s is of a new session: leave it or --session out", name)
		}
	}
	return nil
}

// sourceFlags are the options of the session.
func sourceFlags(flags *pflag.FlagSet, r *sessions.Run, patch *string) {
	flags.Var(cli.Text(&r.Session, "ID"), "session", "run the next command of this session")
	flags.Var(cli.Text(&r.Source, "DIR"), "repo", `the repository of the workspace: a directory, or a URL that
the service fetches. Without it the workspace is empty`)
	flags.Var(cli.Text(&r.New.Ref, "REF"), "ref", "the branch, tag or commit; without it the one of HEAD")
	changesFlags(flags, r)
	flags.Var(cli.Text(patch, "FILE"), "patch", "apply this patch to the workspace; - is standard input")
	flags.Var(cli.Text(&r.New.Environment, "NAME"), "env", `the environment: auto, the default with --repo, has the
repository made ready by its set-up if one fits
(codex-runner setup --print), and setup wants one; none has
the programs of the host alone; conda, or micromamba, the
packages of environment.yml, read-only`)
	flags.BoolVar(&r.New.Network, "network", false, "let COMMAND use the network")
	flags.Var(cli.Parsed("NAME[=FILE]", "", addSecret(r)), "secret", `give COMMAND a secret, as the file
$CREDENTIALS_DIRECTORY/secrets_NAME: the content of FILE,
or the variable NAME of the environment. Its value is hidden
in the output. The option may be given several times`)
	flags.Var(cli.Duration((*time.Duration)(&r.New.HoldOnFailure)), "hold-on-failure",
		`if COMMAND fails, keep its sandbox for so long,
for shell ID; release ID ends that`)
}

// setupFlag is the option that names the file of a set-up.
func setupFlag(flags *pflag.FlagSet, file *string) {
	flags.Var(cli.Text(file, "FILE"), "setup", "the set-up, in place of .codex-runner.toml of the repository")
}

// commandFlags are the options of one command.
func commandFlags(flags *pflag.FlagSet, r *sessions.Run) {
	flags.Var(cli.Text(&r.Command.Directory, "PATH"), "dir", "the working directory, relative to the workspace")
	flags.Var(cli.Parsed("NAME[=VALUE]", "", addEnv(r)), "setenv",
		`set a variable of COMMAND's environment, which is small;
without VALUE to that of the own. The option may be given
several times`)
	flags.Var(cli.Text(&r.StdinFile, "FILE"), "stdin", `the standard input of COMMAND, read before it starts; - is
the own. Without it the input is empty`)
	flags.BoolVar(&r.Command.Journal, "journal", false, `write the output into the journal, too: journalctl
CODEX_SESSION=ID`)
	flags.Var(cli.Texts(&r.Command.Artifacts, "GLOB"), "artifact", `keep the files of the workspace that match.
The option may be given several times`)
}

// limitFlags are the limits. Those that are not given are the ones of runner.toml.
func limitFlags(flags *pflag.FlagSet, r *sessions.Run) {
	l := &r.Command.Limits
	flags.Var(cli.Duration((*time.Duration)(&l.Timeout)), "timeout", "end COMMAND after this time")
	flags.Var(cli.Duration((*time.Duration)(&l.Grace)), "grace", "the time from SIGTERM to SIGKILL then")
	flags.Var(cli.Parsed("NUMBER", "", func(text string) (err error) {
		if l.CPUs, err = strconv.ParseFloat(text, 64); err != nil || !(l.CPUs > 0 && l.CPUs < maxCPUs) {
			return errors.New("want a positive number, such as 0.5 or 2")
		}
		return nil
	}), "cpus", "the CPU time that COMMAND gets, in CPUs")
	flags.Var(cli.Bytes(&l.Memory), "memory", "the memory of all its processes")
	flags.Var(cli.Parsed("NUMBER", "", func(text string) (err error) {
		if l.Tasks, err = strconv.ParseInt(text, 10, 64); err != nil || l.Tasks <= 0 {
			return errors.New("want a positive number")
		}
		return nil
	}), "tasks", "its processes and threads")
	flags.Var(cli.Bytes(&l.Output), "output-limit", "its output and standard error together")
	flags.Var(cli.Bytes(&l.FileSize), "file-size", "each file that it writes")
	flags.Var(cli.Bytes(&l.Disk), "disk", "the workspace")
}

// maxCPUs is more than any machine has.
const maxCPUs = 1 << 20

func addEnv(r *sessions.Run) func(string) error {
	return func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				return fmt.Errorf("there is no variable %s: set it, or name its value as in %s=VALUE", name, name)
			}
		}
		if r.Command.Env == nil {
			r.Command.Env = map[string]string{}
		}
		r.Command.Env[name] = value
		return nil
	}
}

func addSecret(r *sessions.Run) func(string) error {
	return func(text string) error {
		name, file, ok := strings.Cut(text, "=")
		value := []byte(os.Getenv(name))
		if ok {
			var err error
			if value, err = os.ReadFile(file); err != nil {
				return err
			}
		}
		if len(value) == 0 {
			return fmt.Errorf("the secret %s is empty: name its file as in %s=FILE, or set the variable", name, name)
		}
		if r.New.Secrets == nil {
			r.New.Secrets = map[string]string{}
		}
		r.New.Secrets[name] = string(value)
		return nil
	}
}
