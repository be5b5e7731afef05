package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"codex-proxy/console"
	"codex-proxy/console/launch"
	"codex-proxy/console/pipe"
	"codex-proxy/console/runnerorders"
	"codex-proxy/console/server"
	"codex-proxy/internal/cli"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnerdoctor"
	"codex-proxy/units"
)

// consolePort is the port of the page. The one of codex-proxy console is another.
const consolePort = 8789

func consoleCommand() *cobra.Command {
	k := console.Console{Port: consolePort, Page: server.Page{Service: "codex-runner", Watch: pipe.Order{Verb: "watch"},
		Streams: []string{"log"}}}
	c := &cobra.Command{
		Use: "console", Short: "show your sessions on a page of a browser, until Ctrl-C",
		Long: `
Serves a page on 127.0.0.1 and prints its link, which is valid once and for 60
seconds. The page shows your sessions, the output of each command as it is written, how
commands ended, and the checks of codex-runner doctor. It cancels commands and sessions,
and ends holds, unless --read-only is given.

Nothing listens before this command and after its end. From another machine, forward
the port first: ssh -L 8789:127.0.0.1:8789 SERVER. The server of the page is another
process; if root runs the command, it is of the user nobody, which has no right and no
network.`,
	}
	flags := c.Flags()
	flags.BoolVar(&k.ReadOnly, "read-only", false, "only show")
	all := flags.Bool("all", false, "the sessions of all users; for administrators")
	flags.Var(cli.Parsed("PORT", strconv.Itoa(consolePort), func(text string) (err error) {
		port, err := strconv.ParseUint(text, 10, 16)
		k.Port = int(port)
		return err
	}), "port", "the port of 127.0.0.1; 0 takes any")
	connect := socketFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		daemon := connect()
		defer daemon.Close()
		k.Stdout, k.Stderr = c.OutOrStdout(), c.ErrOrStderr()
		k.Ask = func(ctx context.Context) error {
			_, err := daemon.Status(ctx)
			return err
		}
		examined := func(ctx context.Context) (any, error) { return runnerdoctor.Examine(ctx, thisHost(daemon)), nil }
		running := func(context.Context) error { return nil } // the socket of another service than the installed one
		if flags.Lookup("socket").Value.String() == paths.Socket {
			running = serviceRuns
		}
		k.Verbs = runnerorders.All(runnerorders.Settings{Client: daemon, All: *all, Doctor: examined, Running: running})
		return k.Run(c.Context())
	}
	return c
}

// serviceRuns is an error if the installed service does not run.
func serviceRuns(ctx context.Context) error {
	manager := units.NewManager()
	defer manager.Close()
	d, err := manager.Describe(ctx, "codex-runner.service")
	if err == nil && !d.Active() {
		err = fmt.Errorf("codex-runner does not run (%s): systemctl start codex-runner", d.ActiveState)
	}
	return err
}

func consoleServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: launch.Command, Short: "serve the page of the console (run by console)",
		Long: `
Serves the page of codex-runner console, which starts it with a socket for orders; it is
of no use otherwise.`,
		RunE: func(c *cobra.Command, _ []string) error { return console.Serve(c.Context(), os.Stdin) },
	}
}
