package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

// execServer has the options of run by which the command is codex's exec-server.
type execServer struct {
	wanted    bool
	tokenFile string
}

func (e *execServer) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&e.wanted, "exec-server", false, `run codex's exec-server on port 18900 of the session, for a
codex elsewhere. It needs codex 0.160 or later, and
--token-file`)
	flags.Var(cli.Text(&e.tokenFile, "FILE"), "token-file", `the file with the token of --exec-server, one line. The
session gets its hash alone`)
}

// command makes the command of r, and checks the other options.
func (e *execServer) command(c *cobra.Command, r *sessions.Run, patch string, args []string) error {
	program := "codex"
	switch {
	case len(args) > 1:
		return cli.Misuse(c, "--exec-server takes the path of a codex alone: leave its arguments out")
	case e.tokenFile == "":
		return cli.Misuse(c, "--exec-server needs --token-file: without a token every program of the session could "+
			"connect")
	case r.Session == "" && !r.Detach && !r.Keep:
		return cli.Misuse(c, "--exec-server runs until it is cancelled: add --keep --detach")
	case r.TTY || r.StdinFile != "":
		return cli.Misuse(c, "--exec-server reads no input: leave --tty and --stdin out")
	case len(args) == 1:
		program = args[0]
	}
	made, err := sessions.ExecServer(program, e.tokenFile)
	if err != nil {
		return err
	}
	r.Command.Args = made.Args
	return checkRun(c, r, patch)
}
