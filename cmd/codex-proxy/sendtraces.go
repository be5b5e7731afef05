package main

import (
	"cmp"
	"log/slog"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
)

func sendTracesCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "send-traces", Short: "send the daemon's traces on (codex-proxy-traces.service)",
		Long: `
Sends the daemon's traces on to the collector that [traces] or the variables
OTEL_EXPORTER_OTLP_* name, until SIGTERM or SIGINT, or until a while without
traces; it finishes the messages that it has accepted. With a mistake in the
configuration it refuses all for 5 seconds, with the reason, and exits with 78.
Run by codex-proxy-traces.service, which codex-proxy-traces.socket starts; runs
` + paths.TracesProgram + ` in its place.`,
	}
	from.register(c.Flags())
	headers := ""
	c.Flags().Var(cli.Text(&headers, "FILE"), "headers", "headers for the collector, one NAME: VALUE a line; mode 0600")
	idle := socketservice.IdleTime
	service := socketservice.Service{
		Socket: "traces", Leaving: "Finishing what was handed over",
		Load: func(*slog.Logger) (socketservice.Server, string, error) {
			settings, err := config.LoadTraces(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			header, err := config.ReadHeaders(headers)
			if err != nil {
				return nil, "", err
			}
			return newTraceSender(settings, header, idle),
				"Ready: sends to " + cmp.Or(settings.Endpoint, "nobody, as no collector is configured"), nil
		},
	}
	c.Flags().Var(cli.Duration(&idle), "exit-idle-time", "how long it waits for the next traces")
	c.RunE = func(c *cobra.Command, _ []string) error {
		service.Command = c.CommandPath()
		return service.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}
