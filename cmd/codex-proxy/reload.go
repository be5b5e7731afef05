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
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
)

const (
	// reloadSocket names the socket in hand-offs; it is also its file's name.
	reloadSocket = "reload"
	// defaultRuntimeDir is RuntimeDirectory= of codex-proxy.service.
	defaultRuntimeDir = "/run/codex-proxy/control"
	// greetBound is for what is answered at once.
	greetBound = 5 * time.Second
	// acceptPause follows a request that could not be accepted.
	acceptPause = time.Second
)

// addReloadSocket makes the socket on which reloads are asked for in the unit's
// runtime directory, which none but our own user and root may enter.
func addReloadSocket(all notify.Sockets) error {
	dir := os.Getenv("RUNTIME_DIRECTORY")
	if dir == "" || len(all[reloadSocket]) > 0 {
		return nil
	}
	path := filepath.Join(dir, reloadSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot replace %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return fmt.Errorf("cannot listen for reloads: %w", err)
	}
	l.SetUnlinkOnClose(false) // it may be the successor's by then
	all[reloadSocket] = []net.Listener{l}
	return nil
}

// serveReloads answers `codex-proxy reload`, one at a time. A connection is the
// request; the answer is a line with the time that it may take, and then the
// verdict: "ok", or why not.
func (d *daemon) serveReloads(ctx context.Context) error {
	if len(d.sockets[reloadSocket]) == 0 {
		return nil
	}
	select {
	case <-d.handoff.started:
	case <-ctx.Done():
		return nil
	}
	l := d.sockets[reloadSocket][0]
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			if d.answerReload(ctx, conn) {
				return nil // the next one is the successor's
			}
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return nil
		default: // such as too many open files, which ends no request either
			d.logger.Warn("cannot accept reloads", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

func (d *daemon) answerReload(ctx context.Context, conn net.Conn) (replaced bool) {
	defer conn.Close()
	limit := d.cfg.StartTimeout + 2*handoffMargin
	_ = conn.SetDeadline(time.Now().Add(limit))
	fmt.Fprintln(conn, limit)
	verdict := make(chan error, 1)
	select {
	case d.handoff.requests <- verdict:
	case <-ctx.Done():
		fmt.Fprintln(conn, "the service is stopping")
		return false
	}
	if err := <-verdict; err != nil {
		fmt.Fprintln(conn, err)
		return false
	}
	fmt.Fprintln(conn, "ok")
	return true
}

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
		dir = defaultRuntimeDir
	}
	return filepath.Join(dir, reloadSocket)
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
