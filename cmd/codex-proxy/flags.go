package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/workers/control"
)

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
