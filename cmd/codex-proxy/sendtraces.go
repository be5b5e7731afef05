package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/proxy/traces"
)

const sendTracesUsage = `Usage: codex-proxy send-traces [--config FILE] [--set KEY=VALUE]... [--headers FILE] [--exit-idle-time TIME]

Sends the daemon's traces on to the collector that [traces] names, until SIGTERM
or SIGINT, or until there were none for a while; what it has begun it finishes.
Run by codex-proxy-traces.service, which codex-proxy-traces.socket starts.

  --config FILE          the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE        override one key
  --headers FILE         headers for the collector, one NAME: VALUE a line; mode 0600
  --exit-idle-time TIME  how long it waits for the next traces (5m)
`

const (
	// tracesSocket is FileDescriptorName= in codex-proxy-traces.socket.
	tracesSocket   = "traces"
	tracesIdleTime = 5 * time.Minute
)

// sendTraces is the command of that name.
func sendTraces(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var from configFlags
	flags := flag.NewFlagSet("send-traces", flag.ContinueOnError)
	from.register(flags)
	headers := flags.String("headers", "", "")
	idle := flags.Duration("exit-idle-time", tracesIdleTime, "")
	if status, done := parseOnlyFlags(flags, args, sendTracesUsage, stdout, stderr); done {
		return status
	}
	if *idle <= 0 {
		return fail(stderr, "send-traces", fmt.Errorf("--exit-idle-time %s: must be more than zero", *idle), exitUsage)
	}
	settings, err := config.LoadTraces(from.path, from.set)
	if err != nil {
		return fail(stderr, "send-traces", err, exitConfig)
	}
	header, err := config.ReadHeaders(*headers)
	if err != nil {
		return fail(stderr, "send-traces", err, exitConfig)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := sendTracesFor(ctx, settings.Endpoint, header, *idle, slog.New(journal.NewHandler(stderr, slog.LevelInfo))); err != nil {
		return fail(stderr, "send-traces", err, exitFailure)
	}
	return exitOK
}

func sendTracesFor(ctx context.Context, endpoint string, header http.Header, idle time.Duration, logger *slog.Logger) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil {
		return err
	}
	listeners, err := sockets.Listeners(tracesSocket)
	if err != nil {
		return err
	}
	forwarder := traces.NewForwarder(endpoint, header, idle, logger)
	notifier.Ready("Ready: sends to " + cmp.Or(endpoint, "nobody, as no collector is configured"))
	defer notifier.Stopping("Finishing what was handed over")
	return forwarder.Run(ctx, listeners[0])
}
