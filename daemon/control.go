package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"codex-proxy/internal/paths"
	"codex-proxy/workers/control"
)

// ErrControl is a fault of the configuration: another try has the same result.
var ErrControl = errors.New("name a file in a directory where the service can make one, " +
	"or leave control_socket empty; codex-proxy.service can write in " + paths.RuntimeDir + " and " + paths.StateDir)

// openControl opens the control socket, if there is a place for one. Without one in the
// directory that systemd made, requests are served all the same. A socket that the
// settings name must open: the stop of a worker looks there, and takes no answer for no
// daemon.
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
// predecessor.
func moved(ls []net.Listener, path string) bool {
	return path != "" && len(ls) > 0 && ls[0].Addr().String() != path
}

// operators serves the control socket.
type operators struct {
	server *control.Server
	logger *slog.Logger
}

// serve answers operators. A failure ends nothing else.
func (o operators) serve(l net.Listener) {
	if err := o.server.Serve(l); err != nil {
		o.logger.Error("codex-proxy status, drain and undrain do not work any more", "error", err)
	}
}

// leave leaves operators to the successor: from now on, drains apply to its workers.
func (o operators) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	o.shutdown(ctx)
}

func (o operators) shutdown(ctx context.Context) {
	if err := o.server.Shutdown(ctx); err != nil {
		o.logger.Warn("commands were cut off", "error", err)
	}
}
