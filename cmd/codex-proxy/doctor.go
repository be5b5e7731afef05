package main

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/doctor"
	"codex-proxy/daemon/thishost"
	"codex-proxy/internal/cli"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "check the installation, and print each fault with its remedy",
		Long: `
Looks at the installation and names what is wrong with it, and what to do: the
version of systemd, units, users, permissions, the bus and polkit, codex, its
sandbox and logins, the configuration, databases, homes, sockets, models, hands, brokers,
dependencies, remotes, watchdogs, ports, the clock. It changes nothing and starts no service. Run it as root.

It exits with 1 if anything failed. What only could be better ("warn") is no
failure.`,
	}
	asJSON := c.Flags().Bool("json", false, `for scripts:
  {"ok":…,"findings":[{"check","level","subject",
                       "detail","remedy"}]}
level is ok, warn or fail`)
	c.RunE = func(c *cobra.Command, _ []string) error { return examine(c.Context(), c.OutOrStdout(), *asJSON) }
	return c
}

// examine prints the report, and fails if anything is wrong.
func examine(ctx context.Context, stdout io.Writer, asJSON bool) error {
	// The configuration is read as the service reads it, and not as the unit would
	// that runs this command (systemd.exec(5)).
	for _, name := range []string{"CREDENTIALS_DIRECTORY", "RUNTIME_DIRECTORY", "STATE_DIRECTORY"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	report := doctor.Examine(ctx, thishost.New(versionString()))
	show := report.Write
	if asJSON {
		show = func(w io.Writer) error { return json.NewEncoder(w).Encode(report) }
	}
	if err := show(stdout); err != nil || report.OK {
		return err
	}
	return cli.Exit(cli.Failure, nil)
}
