package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "check the configuration"}
	c.AddCommand(configCheckCommand())
	c.Long = `
Checks the configuration and the API keys. If one is not good, it names the file,
the line and the key, and exits with 78.`
	return c
}

func configCheckCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{Use: "check", Short: "check the configuration"}
	from.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := from.load()
		if err == nil {
			err = settings.CheckKeys(from.path)
		}
		if err != nil {
			return cli.Exit(cli.Config, asRoot(err))
		}
		workers := strings.Join(settings.Workers, ", ")
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s is good: workers %s\n", from.path, workers)
		return err
	}
	return c
}
