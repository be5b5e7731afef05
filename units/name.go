package units

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// validName and validDependency bound no length: {0,63} would be 63 copies in the memory of every process.
var validName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

const (
	longestName = 64
	// longestDependency leaves room for the prefix of DependencyUser.
	longestDependency = 28
)

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

// Broker returns the service unit that sends the requests of the worker called name to its model endpoint.
func Broker(name string) string { return "codex-broker@" + name + ".service" }

// BrokerSocket returns the socket unit by which the worker called name reaches its broker.
func BrokerSocket(name string) string { return "codex-broker@" + name + ".socket" }

// BrokerUser returns the user that the broker of the worker called name runs as.
func BrokerUser(name string) string { return "cb-" + strings.TrimPrefix(WorkerUser(name), "cw-") }

// Hands returns the service unit that has the sessions in which the worker called name executes commands.
func Hands(name string) string { return "codex-hands@" + name + ".service" }

// HandsSocket returns the socket unit by which the daemon and the worker reach it.
func HandsSocket(name string) string { return "codex-hands@" + name + ".socket" }

// HandsUser returns the user that it runs as.
func HandsUser(name string) string { return "ch-" + strings.TrimPrefix(WorkerUser(name), "cw-") }

// Login returns the service unit that keeps the login of the worker called name.
func Login(name string) string { return "codex-login@" + name + ".service" }

// LoginSocket returns the socket unit that starts it.
func LoginSocket(name string) string { return "codex-login@" + name + ".socket" }

// LoginUser returns the user that it runs as.
func LoginUser(name string) string { return "cl-" + strings.TrimPrefix(WorkerUser(name), "cw-") }

// ValidName returns the error of a name that no worker can have, or nil. The valid
// names are those that the polkit rule admits; they need no escaping in a unit's
// instance, and no command takes one for an option.
func ValidName(name string) error {
	if len(name) <= longestName && validName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cannot use %q as a worker name: use 1 to 64 letters, digits, _ or -, a letter or digit first",
		name)
}

var validDependency = lazyregexp.New(`^[a-z0-9][a-z0-9-]*$`)

// Dependency returns the service unit of the dependency called name.
func Dependency(name string) string { return "codex-dependency@" + name + ".service" }

// DependencyUser returns the user that the dependency called name runs as, unless its
// file names another one.
func DependencyUser(name string) string { return "cd-" + name }

// ValidDependencyName returns the error of a name that no dependency can have, or nil.
// A user's name has at most 31 characters (systemd.exec(5), User=).
func ValidDependencyName(name string) error {
	if len(name) <= longestDependency && validDependency.MatchString(name) {
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
	if len(name) <= longestDependency && validDependency.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cannot use %q as the name of a remote: use 1 to 28 lower-case letters, digits or -, "+
		"a letter or digit first", name)
}

// Here returns the service unit of the own codex of the user called name.
func Here(name string) string { return "codex-user@" + name + ".service" }

// HereSocket returns the socket unit of the own codex of the user called name.
func HereSocket(name string) string { return "codex-user@" + name + ".socket" }

var validUser = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// longestUser is the length that systemd and the utmp take (systemd.exec(5), User=).
const longestUser = 31

// ValidUserName returns the error of a name of a user that systemd does not take, or that would need escaping in a
// unit's instance.
func ValidUserName(name string) error {
	if len(name) <= longestUser && validUser.MatchString(name) {
		return nil
	}
	return fmt.Errorf("cannot use %q as the name of a user: a unit takes 1 to 31 letters, digits, _, . or -, "+
		"a letter or _ first", name)
}
