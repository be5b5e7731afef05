package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers/control"
)

// openSockets returns the sockets of the predecessor or of systemd, or a new one where there
// is neither; and the sockets for operators and for reloads.
func openSockets(cfg *config.Config, predecessor *handoff.Predecessor, logger *slog.Logger) (notify.Sockets, error) {
	all := predecessor.Sockets()
	if all == nil {
		var err error
		if all, err = notify.Inherited(); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		l, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("cannot listen: %w", err)
		}
		all = notify.Sockets{paths.HTTPSocketName: {l}}
	}
	if ls := all[paths.ControlSocketName]; len(ls) == 0 || predecessor != nil && moved(ls, cfg.ControlSocket) {
		fresh, err := openControl(cfg.ControlSocket, logger)
		if err != nil {
			return nil, err
		}
		all[paths.ControlSocketName] = fresh
	}
	return all, addReloadSocket(all)
}

// addReloadSocket makes the socket for reloads in the unit's runtime directory, which only
// the service's user and root may enter.
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

// apiListeners returns the listeners of the API.
func apiListeners(cfg *config.Config, sockets notify.Sockets) ([]net.Listener, error) {
	ls, err := sockets.Listeners(paths.HTTPSocketName)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	return ls, checkExposure(ls, cfg)
}

// ErrExposed is a fault of the configuration: another try has the same result.
var ErrExposed = errors.New("anyone could use it")

// checkExposure keeps an endpoint without keys off the network, now and when its last key
// is revoked.
func checkExposure(ls []net.Listener, cfg *config.Config) error {
	i := slices.IndexFunc(ls, exposed)
	if i < 0 {
		return nil
	}
	if cfg.Keys.Empty() && !cfg.Keys.Shared() {
		return fmt.Errorf("cannot listen on %s without API keys: %w; run `codex-proxy keys add NAME`, "+
			"or listen on 127.0.0.1", ls[i].Addr(), ErrExposed)
	}
	cfg.Keys.Require()
	return nil
}

// exposed reports whether other machines can reach a listener.
func exposed(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && !a.IP.IsLoopback()
}

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
