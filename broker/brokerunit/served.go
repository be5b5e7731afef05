package brokerunit

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"codex-proxy/broker/modelproxy"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/sharing"
)

// writeServed keeps the units of an account from running: the codex of another worker runs its turns.
func writeServed(dir, name, host string, w *codexhome.Worker) error {
	link, err := sharing.Mark(dir, name, host)
	if err != nil {
		return err
	}
	var b unitfile.Lines
	b.Add("# Made of %s and config.toml at a daemon-reload: %s serves this account.", w.File, units.Worker(host))
	b.Add("[Unit]\nConditionPathIsSymbolicLink=!%s", link)
	return write(dir, units.Worker(name), b.String())
}

// servingWorker has worker-wait move the logins of other accounts that the worker serves.
func servingWorker(served []string) string {
	if len(served) == 0 {
		return ""
	}
	return fmt.Sprintf("Environment=%s\n", unitfile.Word(sharing.ServesVariable+"="+strings.Join(served, " ")))
}

// servingBroker gives the broker of a worker the sockets of the logins of other accounts. One of them that cannot start
// leaves the others as they are; with one that restarts, the broker does, because its mount has the old socket.
func servingBroker(name string, served []string) string {
	if len(served) == 0 {
		return ""
	}
	var b unitfile.Lines
	b.Add("[Unit]")
	for _, account := range served {
		b.Add("Wants=%[1]s\nAfter=%[1]s\nPartOf=%[1]s", units.LoginSocket(account))
	}
	b.Add("[Service]\nEnvironment=%s", unitfile.Word(sharing.ServesVariable+"="+strings.Join(served, " ")))
	for i, account := range served {
		b.Add("BindReadOnlyPaths=-%s:%s", paths.OwnLoginSocket(account), servedSocket(paths.BrokerStates+"/"+name, i))
	}
	return b.String()
}

// servedSocket is where a broker finds the socket of the login of another account, by the place of that in
// sharing.ServesVariable: with its name, the path might be too long for an address (unix(7)). dir is the runtime
// directory of the broker.
func servedSocket(dir string, i int) string { return fmt.Sprintf("%s/login-%d.sock", dir, i) }

// servedLogins are the logins of all accounts of a broker, by their names, if its worker serves others. An account
// without an open socket at the start of the unit is left out.
func servedLogins(name string, own modelproxy.LoginSource, logger *slog.Logger) map[string]modelproxy.LoginSource {
	logins := map[string]modelproxy.LoginSource{}
	for i, account := range strings.Fields(os.Getenv(sharing.ServesVariable)) {
		logins[name] = own
		socket := servedSocket(os.Getenv("RUNTIME_DIRECTORY"), i)
		if !isSocket(socket) {
			logger.Warn("an account is not served: the socket of its login did not open: `systemctl status "+
				units.LoginSocket(account)+"`, then `systemctl restart "+units.Worker(name)+"`", "account", account)
			continue
		}
		logins[account] = sourceAt(socket, account)
	}
	return logins
}

// isSocket reports whether the unit has a socket at the path.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}
