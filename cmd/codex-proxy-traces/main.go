// Command codex-proxy-traces sends the daemon's traces to a collector. `codex-proxy send-traces` runs it in
// its own place, with a socket and with OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; it is a program of its own
// because of the memory that gRPC takes in each process of a program (package collector).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/proxy/traces/collector"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr))
}

// run returns the exit status.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("codex-proxy-traces", flag.ContinueOnError)
	flags.SetOutput(stderr)
	descriptor := flags.Uint("socket", 0, "descriptor of the socket to accept on")
	idle := flags.Duration("exit-idle-time", time.Minute, "time without a connection after which it ends")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	if err := serve(ctx, uintptr(*descriptor), *idle, logger); err != nil {
		fmt.Fprintf(stderr, "codex-proxy-traces: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, descriptor uintptr, idle time.Duration, logger *slog.Logger) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	defer notifier.Stopping("Finishing what was handed over")
	file := os.NewFile(descriptor, "traces")
	l, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("cannot accept on descriptor %d: %w (hint: run `codex-proxy send-traces`)", descriptor, err)
	}
	file.Close()
	return collector.NewForwarder(idle, logger).Run(ctx, l)
}
