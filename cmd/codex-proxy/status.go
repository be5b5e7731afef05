package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/status"
	"codex-proxy/internal/cli"
	"codex-proxy/workers/control"
)

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "show whether the service is ready, and each worker",
		Long: `
Shows whether the service is ready, and each worker: its unit and state, whether
it takes turns and why, restarts, the next start, turns in flight, its last exit;
and what holds while there is no API key.
It succeeds whether the service is ready or not.`,
	}
	flags := c.Flags()
	asJSON := flags.Bool("json", false, "the report of /healthz, one line")
	watch := flags.Bool("watch", false, "again after every change, until Ctrl-C")
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := c.OutOrStdout()
		view := status.View{
			Client: control.NewClient(socket()), Out: out, JSON: *asJSON,
			Terminal: cli.IsTerminal(out), Keyless: apikeys.Keyless,
		}
		if *watch {
			return view.Watch(c.Context())
		}
		return view.Once(c.Context())
	}
	return c
}
