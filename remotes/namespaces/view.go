// Package namespaces runs codex in namespaces of its own: it, its tools, and the commands of attached people, see no
// other process of their user, no other remote, no credential and none of our sockets.
//
// The settings of a unit are not enough. Two remotes may have one user, for whom the files and processes of both are
// alike, and a process outside of the namespaces has to keep the secrets that codex must not read. So the unit's main
// process starts Init, which makes the namespaces from within and then starts codex. It has the same needs as codex's
// own sandbox (bubblewrap): user namespaces that have no privilege outside.
package namespaces

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// View is the part of the machine that codex and its tools see.
type View struct {
	// Hidden are directories that are empty in the namespaces. One that does not exist, or that the user cannot reach,
	// counts as hidden; should it appear later, it is not. A directory that others delete and make again is not either.
	Hidden []string
	// Shown are files and directories that stay visible within Hidden ones, at the same path.
	Shown []string
	// Covered are directories within Shown ones that are empty all the same.
	Covered []string
	// Pinned are files that have another content in the namespaces, or are there only within it. Their directories must
	// exist.
	Pinned map[string]string
	// Dir is the working directory of the command. That of this process lies outside of the namespaces, and so does all
	// that a path from it reaches.
	Dir string
	// Offline gives codex a network namespace of its own, which has only the servers that Listeners returns.
	Offline bool
	// Hands has Init listen on HandsPort as well. It goes with Offline alone: there no other process has the port.
	Hands bool
}

// HandsPort is the port on 127.0.0.1 at which codex finds its hands.
const HandsPort = 18900

// ModelPort stands in the arguments of the command for the port on 127.0.0.1 that Init listens on.
const ModelPort = "{port}"

// listenerFD is the descriptor of Init's end of the socket that passes the listener on: the first of the inherited
// files.
const listenerFD = 3

// Args is the command line of program, which runs Init, for the command args.
func (v View) Args(program string, args []string) ([]string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append([]string{program, string(text), "--"}, args...), nil
}

// Attr are the attributes of the process of Init: the first one of its namespaces, with the rights in them until it has
// made the namespaces.
func (v View) Attr() *syscall.SysProcAttr {
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC)
	if v.Offline || v.Hands {
		flags |= unix.CLONE_NEWNET
	}
	uid, gid := os.Getuid(), os.Getgid()
	return &syscall.SysProcAttr{
		Cloneflags:  flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN},
	}
}

// Keep makes the memory and the open files of this process unreadable for other processes of its user (ptrace(2),
// "Ptrace access mode checking"). A process that is to start Init does that afterwards: else it could not write the
// mappings of the new user namespace.
func Keep() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot protect this process from others of its user: %w", err)
	}
	return nil
}
