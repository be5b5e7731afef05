package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/fetch"
)

const fetchUsage = `Usage: codex-proxy fetch [--config FILE] [--set KEY=VALUE]... [--exit-idle-time TIME]

Fetches images for the daemon, within the limits of [images], until SIGTERM or
SIGINT, or until nobody has asked for a while; what it has begun it finishes. Without a
good configuration it refuses all for 5 seconds, says why, and exits with 78.
Run by codex-proxy-fetch.service, which codex-proxy-fetch.socket starts.

  --config FILE          the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE        override one key
  --exit-idle-time TIME  how long it waits for the next request (5m)
`

// fetchCommand is `codex-proxy fetch`.
func fetchCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var from configFlags
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	from.register(flags)
	return onDemand{
		name: "fetch", usage: fetchUsage, socket: "fetch", leaving: "Finishing what was asked for",
		load: func(idle time.Duration, logger *slog.Logger) (runner, string, error) {
			images, err := config.LoadImages(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			return fetch.NewServer(fetch.New(fetchLimits(images)), idle, logger),
				fmt.Sprintf("Ready: images up to %d bytes", images.MaxBytes), nil
		},
	}.run(ctx, flags, args, stdout, stderr)
}

// fetchLimits are the same on both sides of the socket.
func fetchLimits(images *config.Images) fetch.Limits {
	return fetch.Limits{Bytes: images.MaxBytes, Time: images.Timeout, Allow: images.AllowPrivate}
}
