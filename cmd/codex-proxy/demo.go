package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"codex-proxy/proxy/appserver/appservertest"
)

const demoUsage = `Usage: codex-proxy app-server --listen unix://PATH

The demo worker: it speaks the protocol of codex app-server, needs no account
and answers every prompt with a canned text, as the model "demo". It takes the
options with which codex app-server is run, so that it can stand in for it.
`

// demoAppServer is `codex-proxy app-server`.
func demoAppServer(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("app-server", flag.ContinueOnError)
	listen := flags.String("listen", "", "")
	flags.Bool("strict-config", false, "") // codex's; there is no configuration here
	if status, done := parseFlags(flags, args, demoUsage, stdout, stderr); done {
		return status
	}
	path, ok := strings.CutPrefix(*listen, "unix://")
	if !ok || flags.NArg() > 0 {
		fmt.Fprint(stderr, demoUsage)
		return exitUsage
	}
	if err := serveDemo(ctx, path); err != nil {
		return fail(stderr, "app-server", err, exitFailure)
	}
	return exitOK
}

func serveDemo(ctx context.Context, path string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	// What a killed predecessor left behind.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return (&appservertest.Server{}).Serve(ctx, l)
}
