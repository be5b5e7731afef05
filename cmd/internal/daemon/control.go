package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/proxy/control"
)

// ErrControl is a fault of the configuration: trying again does not mend it.
var ErrControl = errors.New("name a file in a directory where the service can make one, or leave control_socket empty; codex-proxy.service can write in " +
	paths.RuntimeDir + " and " + paths.StateDir)

// openControl opens the control socket, if there is a place for one. Without one in
// the directory that systemd made, requests are served all the same. One that was
// asked for is where the stop of a worker looks, and takes no answer for no daemon.
func openControl(path string, logger *slog.Logger) ([]net.Listener, error) {
	if path == "" {
		return nil, nil
	}
	l, err := control.Listen(path)
	switch {
	case err == nil:
		return []net.Listener{l}, nil
	case filepath.Dir(path) == os.Getenv("RUNTIME_DIRECTORY"):
		logger.Error("codex-proxy status, drain and undrain will not work", "error", err)
		return nil, nil
	}
	return nil, fmt.Errorf("control_socket = %q: %w; %w", path, err, ErrControl)
}

// moved reports whether the settings have the control socket elsewhere than the
// process before.
func moved(ls []net.Listener, path string) bool {
	return path != "" && len(ls) > 0 && ls[0].Addr().String() != path
}

// serveControl answers operators once this process is the one that serves. That
// it cannot go on ends nothing else.
func (d *Daemon) serveControl(ctx context.Context, l net.Listener) error {
	if d.handoff.predecessor != nil {
		select {
		case <-d.handoff.started:
		case <-ctx.Done():
			return nil
		}
	}
	if err := d.control.Serve(l); err != nil {
		d.logger.Error("codex-proxy status, drain and undrain do not work any more", "error", err)
	}
	return nil
}

// leaveControl leaves operators to the successor: its workers are the ones that
// are drained from now on.
func (d *Daemon) leaveControl(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := d.control.Shutdown(ctx); err != nil {
		d.logger.Warn("commands were cut off", "error", err)
	}
	return nil
}
