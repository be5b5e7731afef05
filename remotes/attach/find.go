package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/nearest"
	"codex-proxy/internal/reach"
	"codex-proxy/units"
)

const (
	socketSuffix = ".sock"
	viewerSuffix = ".viewer" + socketSuffix
)

// Names are the remotes that have a socket in dir.
func Names(dir string) (names []string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*"+socketSuffix)) // the pattern is valid
	for _, path := range found {
		// Those of viewers and of the network have a dot in their names.
		if name := strings.TrimSuffix(filepath.Base(path), socketSuffix); !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// find returns the socket, and completes the name of the remote.
func (a *Attach) find() (socket string, err error) {
	names := Names(a.Sockets)
	if a.Remote == "" {
		switch len(names) {
		case 0:
			return "", errors.New("this machine has no remote: codex-proxy remotes add NAME --dir DIRECTORY makes one")
		case 1:
			a.Remote = names[0]
		default:
			return "", fmt.Errorf("this machine has several remotes; name one of %s", strings.Join(names, ", "))
		}
	}
	if err := units.ValidRemoteName(a.Remote); err != nil {
		return "", err
	}
	suffix := socketSuffix
	if a.ReadOnly {
		suffix = viewerSuffix
	}
	socket = filepath.Join(a.Sockets, a.Remote+suffix)
	return socket, a.reachable(socket, names)
}

// reachable explains why a socket cannot be connected to, before a TUI or an editor tries.
func (a *Attach) reachable(socket string, names []string) error {
	switch _, err := os.Stat(socket); {
	case errors.Is(err, fs.ErrNotExist):
		return a.unknown(names)
	case err != nil:
		return fmt.Errorf("cannot reach the remote %s: %w", a.Remote, err)
	}
	if unix.Access(socket, unix.R_OK|unix.W_OK) == nil {
		return nil
	}
	return Refused(a.Remote, socket)
}

// Refused is the error of a user without a right to the socket of a remote. It names the users with the right, and how
// to become one of them.
func Refused(remote, socket string) error {
	me := reach.UserName(uint32(os.Geteuid())) //nolint:gosec // an id of a user
	var st unix.Stat_t
	if err := unix.Stat(socket, &st); err != nil {
		return fmt.Errorf("%s may not attach to the remote %s", me, remote)
	}
	owner, group := reach.UserName(st.Uid), reach.GroupName(st.Gid)
	if group == "root" || group == owner {
		return fmt.Errorf("%s may not attach to the remote %s: %s may. To let %[1]s in, root sets group in "+
			"/etc/codex-proxy/remotes/%[2]s.toml, then: systemctl daemon-reload && systemctl restart %[4]s %[5]s; "+
			"%[1]s must be in that group", me, remote, owner, units.RemoteSocket(remote), units.Remote(remote))
	}
	return fmt.Errorf("%s may not attach to the remote %s: %s and the members of %s may. "+
		"The way in: usermod -aG %[4]s %[1]s, by root, and a new login", me, remote, owner, group)
}

func (a *Attach) unknown(names []string) error {
	remedy := "codex-proxy remotes add " + a.Remote + " --dir DIRECTORY makes it"
	if like := nearest.To(a.Remote, names, 1); len(like) > 0 {
		remedy = fmt.Sprintf("did you mean %s?", like[0])
	}
	return fmt.Errorf("there is no remote %s, or its socket does not run: %s; codex-proxy remotes list shows all",
		a.Remote, remedy)
}
