package main

import (
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/ports"
	"codex-proxy/runner/sessions"
)

func portForwardCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "port-forward ID PORT [PORT]...", Short: "forward ports of a session that runs",
		Long: `
Listens on the port PORT of 127.0.0.1, and connects its clients to the same port of the
session ID, where a server listens on 127.0.0.1 or ::1. PORT may be LOCAL:PORT, as in
3000:8080, for another port of this host; 0 as LOCAL is any that is free. A connection
waits up to 10 seconds for a server. The command ends with the last command of the
session, or by Ctrl-C.`,
	}
	connect := socketFlag(c.Flags())
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := checked(c, args[0])
		if err != nil {
			return err
		}
		p := sessions.PortForward{Client: connect(), Stdout: c.OutOrStdout(), Stderr: c.ErrOrStderr()}
		defer p.Client.Close()
		for _, text := range args[1:] {
			m, err := ports.Parse(text)
			if err != nil {
				return cli.Misuse(c, "%s: %w", text, err)
			}
			p.Ports = append(p.Ports, m)
		}
		// Clients of the ports have to see that their connections are cut.
		ctx, stop := signal.NotifyContext(c.Context(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		defer stop()
		err = p.Forward(ctx, id)
		if ctx.Err() != nil {
			return nil // the user has ended it
		}
		return sessions.Status(err, cli.Failure)
	}
	return c
}
