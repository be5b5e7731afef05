package main

import (
	"cmp"
	"context"
	"flag"
	"io"
	"log/slog"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/traces"
)

const sendTracesUsage = `Usage: codex-proxy send-traces [--config FILE] [--set KEY=VALUE]... [--headers FILE] [--exit-idle-time TIME]

Sends the daemon's traces on to the collector that [traces] names, until SIGTERM
or SIGINT, or until there were none for a while; what it has begun it finishes.
Without a good configuration it refuses all for 5 seconds, says why, and exits
with 78.
Run by codex-proxy-traces.service, which codex-proxy-traces.socket starts.

  --config FILE          the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE        override one key
  --headers FILE         headers for the collector, one NAME: VALUE a line; mode 0600
  --exit-idle-time TIME  how long it waits for the next traces (5m)
`

// sendTraces is the command of that name.
func sendTraces(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var from configFlags
	flags := flag.NewFlagSet("send-traces", flag.ContinueOnError)
	from.register(flags)
	headers := flags.String("headers", "", "")
	return onDemand{
		name: "send-traces", usage: sendTracesUsage, socket: "traces", leaving: "Finishing what was handed over",
		load: func(idle time.Duration, logger *slog.Logger) (runner, string, error) {
			settings, err := config.LoadTraces(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			header, err := config.ReadHeaders(*headers)
			if err != nil {
				return nil, "", err
			}
			return traces.NewForwarder(settings.Endpoint, header, idle, logger),
				"Ready: sends to " + cmp.Or(settings.Endpoint, "nobody, as no collector is configured"), nil
		},
	}.run(ctx, flags, args, stdout, stderr)
}
