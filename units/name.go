package units

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Worker returns the service unit of the worker called name.
func Worker(name string) string { return "codex-worker@" + name + ".service" }

// WorkerSocket returns the socket unit of the worker called name.
func WorkerSocket(name string) string { return "codex-worker@" + name + ".socket" }

// WorkerUser returns the user that the worker called name runs as. A user's name has at
// most 31 characters (systemd.exec(5), User=): for a longer name of a worker the
// generator codex-worker-users puts a hash in its place.
func WorkerUser(name string) string {
	const prefix, most = "cw-", 31
	if len(prefix+name) <= most {
		return prefix + name
	}
	return fmt.Sprintf("%s%x", prefix, sha256.Sum256([]byte(name)))[:most]
}

// ValidName returns the error of a name that no worker can have, or nil. The valid
// names are those that the polkit rule admits; they need no escaping in a unit's
// instance, and no command takes one for an option.
func ValidName(name string) error {
	if validName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cannot use %q as a worker name: use 1 to 64 letters, digits, _ or -, a letter or digit first",
		name)
}

// validDependency leaves room for the prefix of DependencyUser.
var validDependency = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,27}$`)

// Dependency returns the service unit of the dependency called name.
func Dependency(name string) string { return "codex-dependency@" + name + ".service" }

// DependencyUser returns the user that the dependency called name runs as, unless its
// file names another one.
func DependencyUser(name string) string { return "cd-" + name }

// ValidDependencyName returns the error of a name that no dependency can have, or nil.
// A user's name has at most 31 characters (systemd.exec(5), User=).
func ValidDependencyName(name string) error {
	if validDependency.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cannot use %q as the name of a dependency: use 1 to 28 lower-case letters, digits or -, "+
		"a letter or digit first", name)
}

// Remote returns the service unit of the remote called name.
func Remote(name string) string { return "codex-remote@" + name + ".service" }

// RemoteSocket returns the socket unit of the remote called name.
func RemoteSocket(name string) string { return "codex-remote@" + name + ".socket" }

// RemoteNetworkSocket returns the socket unit by which the daemon reaches the remote called name.
func RemoteNetworkSocket(name string) string { return "codex-remote-network@" + name + ".socket" }

// RemoteNotify returns the service unit that runs the command of [notify] of the remote called name.
func RemoteNotify(name string) string { return "codex-remote-notify@" + name + ".service" }

// RemoteNotifySocket returns the socket unit that starts it.
func RemoteNotifySocket(name string) string { return "codex-remote-notify@" + name + ".socket" }

// RemoteUser returns the user that the remote called name runs as, unless its file names
// another one.
func RemoteUser(name string) string { return "cr-" + name }

// ValidRemoteName returns the error of a name that no remote can have, or nil. It has the bound of a dependency's name,
// and no dot: the socket for viewers is NAME.viewer.sock.
func ValidRemoteName(name string) error {
	if validDependency.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cannot use %q as the name of a remote: use 1 to 28 lower-case letters, digits or -, "+
		"a letter or digit first", name)
}

// unitPath returns the object path of a unit: its name escaped as sd-bus does
// (sd_bus_path_encode(3)). systemd loads the unit at the first use of the path, so
// a unit that isn't installed has a path too.
func unitPath(unit string) string {
	var b strings.Builder
	b.WriteString("/org/freedesktop/systemd1/unit/")
	for i := range len(unit) {
		c := unit[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if letter || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}
