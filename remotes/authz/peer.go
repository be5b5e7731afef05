package authz

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Role is the rights of a client.
type Role uint8

// An Owner works with the remote; a Viewer watches it.
const (
	Owner Role = iota
	Viewer
)

func (r Role) String() string {
	if r == Viewer {
		return "viewer"
	}
	return "owner"
}

// Peer is the process that has connected, as the kernel knows it (SO_PEERCRED of unix(7)).
type Peer struct {
	UID, GID, PID int
}

// peerOf returns the credentials at the time of the connect.
func peerOf(conn *net.UnixConn) (p Peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	control := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(control, err); err != nil {
		return p, fmt.Errorf("cannot read the peer's credentials: %w", err)
	}
	return Peer{UID: int(cred.Uid), GID: int(cred.Gid), PID: int(cred.Pid)}, nil
}

// User is the name of the peer's user, or its number.
func (p Peer) User() string {
	if u, err := user.LookupId(strconv.Itoa(p.UID)); err == nil {
		return u.Username
	}
	return strconv.Itoa(p.UID)
}

// Cgroup is the control group of this process, for Proxy.Cgroup: its unit's group, or empty without one.
func Cgroup() string { return cgroupOf("self") }

func cgroupOf(process string) string {
	b, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && path != "/" {
			return path
		}
	}
	return ""
}

// within reports whether the peer is a process of that control group. A peer of our own user with a group that cannot
// be read has ended, and left the connection to another process: it counts as one of the group. ProtectProc= hides only
// processes of other users, and none of those is in the group.
func (p Peer) within(cgroup string) bool {
	if cgroup == "" {
		return false
	}
	path := cgroupOf(strconv.Itoa(p.PID))
	if path == "" {
		return p.UID == os.Getuid()
	}
	return path == cgroup || strings.HasPrefix(path, cgroup+"/")
}
