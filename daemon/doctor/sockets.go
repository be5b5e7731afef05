package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"codex-proxy/workers/control"
)

// checkSockets checks the sockets between the proxy and its workers, and the control
// socket. It does not connect to a worker's socket: that could start a stopped worker.
func checkSockets(_ context.Context, s *survey) []Finding {
	var found []Finding
	for _, w := range s.workers {
		found = append(found, s.workerSocket(w)...)
	}
	found = append(found, s.control()...)
	return orOK(found, fmt.Sprintf("%d of workers, and the control socket", len(s.workers)))
}

func (s *survey) socketPath(w worker) string {
	if s.config != nil {
		return s.config.Socket(w.name)
	}
	return filepath.Join(runDir, w.name+".sock")
}

func (s *survey) workerSocket(w worker) []Finding {
	path := s.socketPath(w)
	if d, known := s.units[w.socket()]; known && d.LoadState == "loaded" && !slices.Contains(d.Listen, path) {
		return []Finding{fail(w.socket(), fmt.Sprintf("listens on %v, and the proxy connects to %s", d.Listen, path),
			"make ListenStream= of the unit and socket_dir in config.toml agree")}
	}
	if s.busErr == nil && !s.running(w.socket()) {
		return []Finding{unchecked(path, w.socket()+" does not listen", "units")}
	}
	again := fmt.Sprintf("systemctl stop %s %s && systemctl start codex.target", w.unit(), w.socket())
	info, err := os.Lstat(s.path(path))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []Finding{unprivileged(path, "see it")}
	case err != nil:
		return []Finding{fail(path, "does not exist", again)}
	case info.Mode().Type() != fs.ModeSocket:
		return []Finding{fail(path, "is not a socket", "rm "+path+"; then "+again)}
	}
	return s.socketMode(path, info)
}

// socketMode checks that the proxy's group alone may connect, which needs permission
// to write (unix(7)).
func (s *survey) socketMode(path string, info fs.FileInfo) []Finding {
	root, err := s.Account("root")
	proxy, proxyErr := s.Account(proxyUser)
	if err != nil || proxyErr != nil {
		return []Finding{unchecked(path, "there is no user "+proxyUser, "users")}
	}
	st := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	remedy := fmt.Sprintf("chown root:%s %s && chmod 0660 %s; if it comes back, take SocketMode=, SocketUser= and "+
		"SocketGroup= out of the drop-in", proxyUser, path, path)
	switch {
	case st.Uid != root.UID || st.Gid != proxy.GID:
		return []Finding{fail(path, fmt.Sprintf("belongs to %d:%d, not to root:%s", st.Uid, st.Gid, proxyUser), remedy)}
	case mode&0o060 != 0o060:
		return []Finding{fail(path, fmt.Sprintf("has mode %04o: the proxy cannot connect", mode), remedy)}
	case mode&0o007 != 0:
		return []Finding{fail(path, fmt.Sprintf("has mode %04o: every user may use the worker", mode), remedy)}
	}
	return nil
}

// controlGone reports whether the service runs and its control socket has no listener.
func (s *survey) controlGone() bool {
	return errors.Is(s.reportErr, control.ErrNotRunning) && s.running(proxyUnit)
}

func (s *survey) control() []Finding {
	path := s.controlSocket()
	switch {
	case errors.Is(s.reportErr, control.ErrForbidden):
		return []Finding{unprivileged(path, "use it")}
	case s.controlGone():
		return []Finding{fail(path, "is gone, while the service runs: status, drain and undrain cannot work",
			"systemctl restart codex-proxy, which makes it anew")}
	case s.reportErr != nil && !s.running(proxyUnit):
		return []Finding{unchecked(path, "the service does not run", "service")}
	case s.reportErr != nil:
		return []Finding{fail(path, s.reportErr.Error(),
			"journalctl -u codex-proxy; systemctl restart codex-proxy makes it anew")}
	}
	info, err := os.Stat(s.path(path))
	if err != nil {
		return []Finding{fail(path, "not checked: "+err.Error(), "systemctl restart codex-proxy")}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return []Finding{fail(path, fmt.Sprintf("has mode %04o: others may drain workers", info.Mode().Perm()),
			"chmod 0600 "+path)}
	}
	return nil
}
