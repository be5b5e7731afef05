package main

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/internal/paths"
)

func modelBrokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "model-broker NAME", Short: "send a worker's requests to its model endpoint (codex-broker@.service)",
		Long: `
Takes the requests of the worker NAME's codex on the socket of codex-broker@NAME.socket,
and sends them to the model endpoint of the worker's [provider], over connections that
it keeps, with the provider's key, which codex does not have. With a fault in the
settings it refuses all for 5 seconds, with the reason, and exits with 78. On SIGTERM it
finishes the requests in flight.`,
		RunE: func(c *cobra.Command, args []string) error {
			settings := filepath.Join(cmp.Or(os.Getenv("CONFIGURATION_DIRECTORY"), paths.Settings), "workers")
			service := socketservice.Service{
				Command: c.CommandPath(), Socket: "broker", Leaving: "Finishing the requests in flight",
				Load: func(logger *slog.Logger) (socketservice.Server, string, error) {
					return brokerunit.Load(args[0], settings, os.Getenv("CREDENTIALS_DIRECTORY"), logger)
				},
			}
			return service.Run(c.Context(), c.ErrOrStderr())
		},
	}
}
