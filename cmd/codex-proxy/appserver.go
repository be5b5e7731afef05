package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"codex-proxy/codex/appservertest"
	"codex-proxy/internal/cli"
)

func appServerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "app-server", Short: "the demo worker, in place of codex app-server",
		Long: `
The demo worker: it speaks the protocol of codex app-server, needs no account
and answers every prompt with a canned text, as the model "demo". It takes the
options with which codex app-server is run, so that it can stand in for it.`,
	}
	path := ""
	c.Flags().Var(cli.Parsed("unix://PATH", "", func(text string) (err error) {
		var ok bool
		if path, ok = strings.CutPrefix(text, "unix://"); !ok {
			err = errors.New("want unix://PATH")
		}
		return err
	}), "listen", "the socket to make")
	_ = c.MarkFlagRequired("listen")
	c.Flags().Bool("strict-config", false, "taken, and without effect: there is no configuration")
	c.RunE = func(c *cobra.Command, _ []string) error { return serveDemo(c.Context(), path) }
	return c
}

func serveDemo(ctx context.Context, path string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	// A killed predecessor leaves its socket behind.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return (&appservertest.Server{}).Serve(ctx, l)
}
