package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/sessions"
)

const defaultSessions = 100

func sessionsCommand() *cobra.Command {
	filter := client.Filter{Limit: defaultSessions}
	c := &cobra.Command{
		Use: "sessions", Short: "list your sessions, the newest first",
		Long: `
Lists your sessions, the newest first, each with its last command: what the session
does (active: a command waits or runs; idle: it waits for the next one; closed), and
what the command does or how it ended.`,
	}
	flags := c.Flags()
	flags.Var(cli.Text((*string)(&filter.State), "STATE"), "state", "only those that are active, idle or closed")
	flags.BoolVar(&filter.All, "all", false, "those of all users; for administrators")
	flags.Var(cli.Parsed("NUMBER", strconv.Itoa(defaultSessions), func(text string) (err error) {
		if filter.Limit, err = strconv.Atoi(text); err != nil || filter.Limit <= 0 {
			return errors.New("want a positive number")
		}
		return nil
	}), "limit", "how many at most")
	asJSON := flags.Bool("json", false, "one JSON object, as the API returns it")
	connect := socketFlag(flags)
	cli.Complete(c, "state", string(wire.SessionActive), string(wire.SessionIdle), string(wire.SessionClosed))
	c.RunE = viewing(connect, asJSON, func(c *cobra.Command, view sessions.View, _ []string) error {
		switch filter.State {
		case "", wire.SessionActive, wire.SessionIdle, wire.SessionClosed:
			return view.List(c.Context(), filter)
		}
		return cli.Misuse(c, "--state=%s: want active, idle or closed", filter.State)
	})
	return c
}

// viewing is the function of a command that shows something.
func viewing(
	connect func() *client.Client, asJSON *bool, show func(*cobra.Command, sessions.View, []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		view := sessions.View{Client: connect(), Stdout: c.OutOrStdout(), JSON: *asJSON}
		defer view.Client.Close()
		return show(c, view, args)
	}
}

// viewingSession is viewing for a command with the ID of a session as its argument.
func viewingSession(
	connect func() *client.Client, asJSON *bool, show func(*cobra.Command, sessions.View, string) error,
) func(*cobra.Command, []string) error {
	return viewing(connect, asJSON, func(c *cobra.Command, view sessions.View, args []string) error {
		id, err := checked(c, args[0])
		if err != nil {
			return err
		}
		return show(c, view, id)
	})
}
