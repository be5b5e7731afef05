package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/control"
)

// defaultControlSocket is where codex-proxy.service has its control socket
// (RuntimeDirectory= in the unit).
const defaultControlSocket = "/run/codex-proxy/control/socket"

// controlName is the name under which a control socket may be passed, as
// FileDescriptorName= names it. Without one the daemon opens its own.
const controlName = "control"

// controlFlag is the option by which a command finds the daemon: called after the
// options are parsed, it is the path.
func controlFlag(flags *pflag.FlagSet) func() string {
	var path string
	flags.Var(cli.Text(&path, "PATH"), "socket", "the daemon's control socket (as config.toml says)")
	return func() string { return cmp.Or(path, controlSocket(config.DefaultPath)) }
}

// controlSocket is where the daemon of these settings listens. If they are bad, one
// that runs has read others, and a stop must find it.
func controlSocket(settings string) string {
	places, _ := config.LoadPlaces(settings)
	return controlSocketOf(places)
}

// controlSocketOf goes by what is there, while the daemon has not read of a new place.
func controlSocketOf(places config.Places) string {
	if _, err := os.Lstat(places.ControlSocket); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(defaultControlSocket); err == nil {
			return defaultControlSocket
		}
	}
	return cmp.Or(places.ControlSocket, defaultControlSocket)
}

// errControl is a fault of the configuration: trying again does not mend it.
var errControl = errors.New("name a file in a directory where the service can make one, or leave control_socket empty; codex-proxy.service can write in " +
	defaultRuntimeDir + " and " + stateDir)

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
	return nil, fmt.Errorf("control_socket = %q: %w; %w", path, err, errControl)
}

// moved reports whether the settings have the control socket elsewhere than the
// process before.
func moved(ls []net.Listener, path string) bool {
	return path != "" && len(ls) > 0 && ls[0].Addr().String() != path
}

// serveControl answers operators once this process is the one that serves. That
// it cannot go on ends nothing else.
func (d *daemon) serveControl(ctx context.Context, l net.Listener) error {
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
func (d *daemon) leaveControl(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := d.control.Shutdown(ctx); err != nil {
		d.logger.Warn("commands were cut off", "error", err)
	}
	return nil
}
