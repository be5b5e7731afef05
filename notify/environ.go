package notify

import "strings"

// ours are the variables of the service manager's protocols: sd_notify(3),
// sd_watchdog_enabled(3), sd_listen_fds(3). A command started by Exec must not see them:
// it would ping, for example, and systemd refuses pings of a process that is not the
// unit's main one.
var ours = []string{
	"NOTIFY_SOCKET",
	"WATCHDOG_USEC", "WATCHDOG_PID",
	"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES",
}

// CommandEnv returns environ without the variables of the service manager's protocols,
// for a command that must not take them for its own.
func CommandEnv(environ []string) []string {
	var kept []string
	for _, assignment := range environ {
		if !isOurs(assignment) {
			kept = append(kept, assignment)
		}
	}
	return kept
}

func isOurs(assignment string) bool {
	name, _, _ := strings.Cut(assignment, "=")
	for _, o := range ours {
		if name == o {
			return true
		}
	}
	return false
}
