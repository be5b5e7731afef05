package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/workers/control"
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

// asRoot adds the remedy to the error of a file that the user may not read.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return fmt.Errorf("%w: %w", err, control.ErrForbidden)
	}
	return err
}

// configFlags are the options by which a command finds its configuration.
type configFlags struct {
	path string
	set  []string
}

func (c *configFlags) register(flags *pflag.FlagSet) {
	c.path = config.DefaultPath
	flags.Var(cli.Text(&c.path, "FILE"), "config", "the file to read")
	flags.Var(cli.Texts(&c.set, "KEY=VALUE"), "set", "override one key")
}

func (c *configFlags) load() (*config.Config, error) { return config.Load(c.path, c.set) }
