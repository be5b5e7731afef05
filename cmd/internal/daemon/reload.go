package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/notify"
)

// acceptPause follows a request for a reload that could not be accepted.
const acceptPause = time.Second

// addReloadSocket makes the socket on which reloads are asked for in the unit's
// runtime directory, which none but our own user and root may enter.
func addReloadSocket(all notify.Sockets) error {
	dir := os.Getenv("RUNTIME_DIRECTORY")
	if dir == "" || len(all[paths.ReloadSocket]) > 0 {
		return nil
	}
	path := filepath.Join(dir, paths.ReloadSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot replace %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return fmt.Errorf("cannot listen for reloads: %w", err)
	}
	l.SetUnlinkOnClose(false) // it may be the successor's by then
	all[paths.ReloadSocket] = []net.Listener{l}
	return nil
}

// serveReloads answers `codex-proxy reload`, one at a time. A connection is the
// request; the answer is a line with the time that it may take, and then the
// verdict: "ok", or why not.
func (d *Daemon) serveReloads(ctx context.Context) error {
	if len(d.sockets[paths.ReloadSocket]) == 0 {
		return nil
	}
	select {
	case <-d.handoff.started:
	case <-ctx.Done():
		return nil
	}
	l := d.sockets[paths.ReloadSocket][0]
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

func (d *Daemon) answerReload(ctx context.Context, conn net.Conn) (replaced bool) {
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
