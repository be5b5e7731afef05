package main

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/traces"
)

func sendTracesCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "send-traces", Short: "send the daemon's traces on (codex-proxy-traces.service)",
		Long: `
Sends the daemon's traces on to the collector that [traces] names, until SIGTERM
or SIGINT, or until there were none for a while; what it has begun it finishes.
Without a good configuration it refuses all for 5 seconds, with the reason, and
exits with 78.
Run by codex-proxy-traces.service, which codex-proxy-traces.socket starts.`,
	}
	from.register(c.Flags())
	headers := ""
	c.Flags().Var(cli.Text(&headers, "FILE"), "headers", "headers for the collector, one NAME: VALUE a line; mode 0600")
	return onDemand{
		socket: "traces", leaving: "Finishing what was handed over",
		load: func(idle time.Duration, logger *slog.Logger) (runner, string, error) {
			settings, err := config.LoadTraces(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			header, err := config.ReadHeaders(headers)
			if err != nil {
				return nil, "", err
			}
			return traces.NewForwarder(settings.Endpoint, header, idle, logger),
				"Ready: sends to " + cmp.Or(settings.Endpoint, "nobody, as no collector is configured"), nil
		},
	}.command(c, "how long it waits for the next traces")
}
