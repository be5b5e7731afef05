package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/client"
	"codex-proxy/runner/paths"
)

// socketFlag adds the option --socket. Called after the options are parsed, the function returns the client.
func socketFlag(flags *pflag.FlagSet) func() *client.Client {
	path := paths.Socket
	flags.Var(cli.Text(&path, "PATH"), "socket", "the socket of the API")
	return func() *client.Client { return client.New(path) }
}

// completeBound is the longest that a completion waits for the daemon.
const completeBound = time.Second

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeSessions completes the first argument by the IDs of sessions, with the commands that they run.
func completeSessions(connect func() *client.Client) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return sessionIDs(c.Context(), connect()), noFiles
	}
}

// sessionIDs are the IDs of the newest sessions; none if the daemon does not answer.
func sessionIDs(ctx context.Context, c *client.Client) []string {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, completeBound)
	defer cancel()
	all, err := c.Sessions(ctx, client.Filter{})
	if err != nil {
		return nil
	}
	var ids []string
	for _, s := range all {
		last := s.Commands[len(s.Commands)-1]
		ids = append(ids, cobra.CompletionWithDesc(s.ID, last.Args[0]))
	}
	return ids
}

// checked returns the argument ID of a command, or an error that explains its fault.
func checked(c *cobra.Command, id string) (string, error) {
	if err := paths.CheckID(id); err != nil {
		return "", cli.Misuse(c, "%w", err)
	}
	return id, nil
}
