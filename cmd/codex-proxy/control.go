package main

import (
	"cmp"
	"context"
	"flag"
	"log/slog"
	"net"

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
func controlFlag(flags *flag.FlagSet) func() string {
	path := flags.String("socket", "", "")
	return func() string { return cmp.Or(*path, controlSocket(config.DefaultPath)) }
}

// controlSocket is where the daemon of these settings listens. If they are bad, one
// that runs has read others, and a stop must find it.
func controlSocket(settings string) string {
	places, _ := config.LoadPlaces(settings)
	return cmp.Or(places.ControlSocket, defaultControlSocket)
}

// openControl opens the control socket, if there is a place for one. Without it
// requests are served all the same.
func openControl(path string, logger *slog.Logger) []net.Listener {
	if path == "" {
		return nil
	}
	l, err := control.Listen(path)
	if err != nil {
		logger.Error("codex-proxy status, drain and undrain will not work", "error", err)
		return nil
	}
	return []net.Listener{l}
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
