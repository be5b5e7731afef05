package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/proxy/fetch"
)

const fetchUsage = `Usage: codex-proxy fetch [--config FILE] [--set KEY=VALUE]... [--exit-idle-time TIME]

Fetches images for the daemon, within the limits of [images], until SIGTERM or
SIGINT, or until nobody has asked for a while; what it has begun it finishes.
Run by codex-proxy-fetch.service, which codex-proxy-fetch.socket starts.

  --config FILE          the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE        override one key
  --exit-idle-time TIME  how long it waits for the next request (5m)
`

const (
	// fetchSocket is FileDescriptorName= in codex-proxy-fetch.socket.
	fetchSocket   = "fetch"
	fetchIdleTime = 5 * time.Minute
)

// fetchCommand is `codex-proxy fetch`.
func fetchCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var from configFlags
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	from.register(flags)
	idle := flags.Duration("exit-idle-time", fetchIdleTime, "")
	if status, done := parseOnlyFlags(flags, args, fetchUsage, stdout, stderr); done {
		return status
	}
	if *idle <= 0 {
		return fail(stderr, "fetch", fmt.Errorf("--exit-idle-time %s: must be more than zero", *idle), exitUsage)
	}
	images, err := config.LoadImages(from.path, from.set)
	if err != nil {
		return fail(stderr, "fetch", err, exitConfig)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := fetchFor(ctx, images, *idle, slog.New(journal.NewHandler(stderr, slog.LevelInfo))); err != nil {
		return fail(stderr, "fetch", err, exitFailure)
	}
	return exitOK
}

func fetchFor(ctx context.Context, images *config.Images, idle time.Duration, logger *slog.Logger) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil {
		return err
	}
	listeners, err := sockets.Listeners(fetchSocket)
	if err != nil {
		return err
	}
	server := fetch.NewServer(fetch.New(fetchLimits(images)), idle, logger)
	notifier.Ready(fmt.Sprintf("Ready: images up to %d bytes", images.MaxBytes))
	defer notifier.Stopping("Finishing what was asked for")
	return server.Run(ctx, listeners[0])
}

// fetchLimits are the same on both sides of the socket.
func fetchLimits(images *config.Images) fetch.Limits {
	return fetch.Limits{Bytes: images.MaxBytes, Time: images.Timeout, Allow: images.AllowPrivate}
}
