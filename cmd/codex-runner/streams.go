package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/ports"
	"codex-proxy/runner/sessions"
)

// withoutPort has the remedies for options that exclude --port.
var withoutPort = map[string]string{
	"network": "a server of COMMAND is on 127.0.0.1 of this host then, for every user",
	"detach":  "codex-runner port-forward ID forwards ports of a session that runs",
	"dry-run": "nothing runs that could listen",
}

// streamFlags are the options that connect the caller with COMMAND while that runs.
func streamFlags(flags *pflag.FlagSet, r *sessions.Run) {
	flags.Var(cli.Parsed("[LOCAL:]PORT", "", func(text string) error {
		m, err := ports.Parse(text)
		r.Ports = append(r.Ports, m)
		return err
	}), "port", `forward the port LOCAL of 127.0.0.1, or PORT without it,
to the port PORT of COMMAND while it runs, for example of a
web server; LOCAL may be 0 for any. A connection waits up
to 10 seconds for the server. The option may be given
several times`)
	flags.BoolVar(&r.TTY, "tty", false, `give COMMAND a terminal, and connect the own with it:
Ctrl-C goes to COMMAND then, and cancel ID ends it from
elsewhere. Its output and errors are one stream`)
}

// checkStreams refuses options that exclude a forward or a terminal.
func checkStreams(c *cobra.Command, r *sessions.Run) error {
	for _, name := range []string{"detach", "stdin", "json", "dry-run"} {
		if r.TTY && c.Flags().Changed(name) {
			return cli.Misuse(c, "--tty and --%s exclude each other: a terminal has the input and the output", name)
		}
	}
	for _, name := range []string{"network", "detach", "dry-run"} {
		if len(r.Ports) > 0 && c.Flags().Changed(name) {
			return cli.Misuse(c, "--port and --%s exclude each other: %s", name, withoutPort[name])
		}
	}
	return nil
}
