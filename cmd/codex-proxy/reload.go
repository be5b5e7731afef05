package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/notify/handoff"
)

// greetBound is for what is answered at once.
const greetBound = 5 * time.Second

func reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "replace the running daemon by the installed one",
		Long: `
Replaces the running daemon by a new process of the installed program, with the
configuration as it is now. No request is lost: turns in flight are finished by
the old process. If the new one does not become ready then the old one goes on
serving, and the reason is printed. Run by systemctl reload codex-proxy, which
leaves the reason in the journal and in systemctl status. That renews
codex-proxy-fetch.service and codex-proxy-traces.service, too; this command and
SIGHUP leave these with the program and the configuration that they have.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := reload(c.Context(), reloadPath()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "a new process serves; the one before finishes its turns")
			return err
		},
	}
}

func reloadPath() string {
	dir := os.Getenv("RUNTIME_DIRECTORY")
	if dir == "" {
		dir = paths.RuntimeDir
	}
	return filepath.Join(dir, paths.ReloadSocket)
}

// reload asks the daemon to hand over, and returns its verdict.
func reload(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, greetBound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("cannot reach the daemon: %w (is codex-proxy.service running, and are you root?)", err)
	}
	defer conn.Close()
	said := bufio.NewReader(conn)
	limit, err := awaitLine(conn, said, greetBound)
	if err != nil {
		return err
	}
	bound, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("cannot understand the daemon: %q", limit)
	}
	verdict, err := awaitLine(conn, said, bound)
	if err == nil && verdict != "ok" {
		err = errors.New(verdict)
	}
	return err
}

func awaitLine(conn net.Conn, from *bufio.Reader, bound time.Duration) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return "", err
	}
	line, err := from.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("cannot learn what became of the reload: %w (see journalctl -u codex-proxy)", err)
	}
	return strings.TrimSpace(line), nil
}

func launchCommand() *cobra.Command {
	c := &cobra.Command{
		Use: handoff.LaunchCommand + " PROGRAM [ARG]...", Short: "start the next daemon for a reload (run by serve)",
		Long: `
Starts the new process of a reload. Run by codex-proxy serve, which hands it a
socket; it is of no use otherwise.`,
		RunE: func(c *cobra.Command, args []string) error {
			return cli.Exit(handoff.Launch(args, os.Stdin, c.OutOrStdout()), nil)
		},
	}
	c.Flags().SetInterspersed(false) // the options after PROGRAM are its own
	return c
}
