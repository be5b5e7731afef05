package workerscheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units/survey"
	"codex-proxy/workers/control"
)

// sockets checks the sockets between the proxy and its workers, and the control
// socket. It does not connect to a worker's socket: that could start a stopped worker.
func (r *room) sockets(context.Context) []checkup.Finding {
	var found []checkup.Finding
	for _, w := range r.workers {
		if w.Host == "" {
			found = append(found, r.workerSocket(w)...)
		}
	}
	found = append(found, r.controlSocket()...)
	return checkup.OrPassed(found, fmt.Sprintf("%d of workers, and the control socket", len(r.workers)))
}

func (r *room) workerSocket(w Worker) []checkup.Finding {
	path := w.socketPath(r.directory)
	if d, known := r.Units[w.socket()]; known && d.LoadState == "loaded" && !slices.Contains(d.Listen, path) {
		return checkup.Failure(w.socket(), fmt.Sprintf("listens on %v, and the proxy connects to %s", d.Listen, path),
			"make ListenStream= of the unit and socket_dir in config.toml agree").Alone()
	}
	if r.BusErr == nil && !r.Running(w.socket()) {
		return checkup.Unchecked(path, w.socket()+" does not listen", "units").Alone()
	}
	again := fmt.Sprintf("systemctl stop %s %s && systemctl start codex.target", w.Unit(), w.socket())
	info, err := os.Lstat(r.Path(path))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []checkup.Finding{survey.Unprivileged(path, "see it")}
	case err != nil:
		return checkup.Failure(path, "does not exist", again).Alone()
	case info.Mode().Type() != fs.ModeSocket:
		return checkup.Failure(path, "is not a socket", "rm "+path+"; then "+again).Alone()
	}
	return r.socketMode(path, info)
}

// socketMode checks that the proxy's group alone may connect, which needs permission
// to write (unix(7)).
func (r *room) socketMode(path string, info fs.FileInfo) []checkup.Finding {
	root, err := r.Account("root")
	proxy, proxyErr := r.Account(paths.User)
	if err != nil || proxyErr != nil {
		return checkup.Unchecked(path, "there is no user "+paths.User, "users").Alone()
	}
	st := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	remedy := fmt.Sprintf("chown root:%s %s && chmod 0660 %s; if it comes back, take SocketMode=, SocketUser= and "+
		"SocketGroup= out of the drop-in", paths.User, path, path)
	switch {
	case st.Uid != root.UID || st.Gid != proxy.GID:
		return checkup.Failure(path, fmt.Sprintf("belongs to %d:%d, not to root:%s", st.Uid, st.Gid, paths.User),
			remedy).Alone()
	case mode&0o060 != 0o060:
		return checkup.Failure(path, fmt.Sprintf("has mode %04o: the proxy cannot connect", mode), remedy).Alone()
	case mode&0o007 != 0:
		return checkup.Failure(path, fmt.Sprintf("has mode %04o: every user may use the worker", mode), remedy).Alone()
	}
	return nil
}

// controlGone reports whether the service runs and its control socket has no listener.
func (r *room) controlGone() bool {
	return errors.Is(r.ReportErr, control.ErrNotRunning) && r.Running(paths.ServiceUnit)
}

func (r *room) controlSocket() []checkup.Finding {
	path := r.control
	switch {
	case errors.Is(r.ReportErr, control.ErrForbidden):
		return []checkup.Finding{survey.Unprivileged(path, "use it")}
	case r.controlGone():
		return checkup.Failure(path, "is gone, while the service runs: status, drain and undrain cannot work",
			"systemctl restart codex-proxy, which makes it anew").Alone()
	case r.ReportErr != nil && !r.Running(paths.ServiceUnit):
		return checkup.Unchecked(path, "the service does not run", "service").Alone()
	case r.ReportErr != nil:
		return checkup.Failure(path, r.ReportErr.Error(),
			"journalctl -u codex-proxy; systemctl restart codex-proxy makes it anew").Alone()
	}
	info, err := os.Stat(r.Path(path))
	if err != nil {
		return checkup.Failure(path, "not checked: "+err.Error(), "systemctl restart codex-proxy").Alone()
	}
	if info.Mode().Perm()&0o077 != 0 {
		return checkup.Failure(path, fmt.Sprintf("has mode %04o: others may drain workers", info.Mode().Perm()),
			"chmod 0600 "+path).Alone()
	}
	return nil
}
