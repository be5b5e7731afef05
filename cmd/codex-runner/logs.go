package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/sessions"
)

func logsCommand() *cobra.Command {
	var o sessions.Output
	c := &cobra.Command{
		Use: "logs ID", Short: "print the output of a command",
		Long: `
Prints the output of a command of the session ID as it was written, byte for byte: its
standard output to the own, and its standard error likewise.`,
	}
	flags := c.Flags()
	flags.BoolVarP(&o.Follow, "follow", "f", false, "go on until the command has ended")
	commandFlag(flags, &o.Command, "that of the command with this number; without it of the last one")
	flags.Var(cli.Parsed("BYTES", "", func(text string) (err error) {
		if o.From, err = strconv.ParseInt(text, 10, 64); err != nil || o.From < 0 {
			return errors.New("want a number of bytes, 0 or more")
		}
		return nil
	}), "since-offset", "leave out so many bytes of both streams together")
	connect := socketFlag(flags)
	c.ValidArgsFunction = completeSessions(connect)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := checked(c, args[0])
		if err != nil {
			return err
		}
		o.Client, o.Stdout, o.Stderr = connect(), c.OutOrStdout(), c.ErrOrStderr()
		defer o.Client.Close()
		return o.Show(c.Context(), id)
	}
	return c
}

// commandFlag adds the option for the number of a command.
func commandFlag(flags *pflag.FlagSet, n *int, text string) {
	flags.Var(cli.Parsed("NUMBER", "", func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err != nil || *n <= 0 {
			return errors.New("want a positive number, as show has it")
		}
		return nil
	}), "command", text)
}
