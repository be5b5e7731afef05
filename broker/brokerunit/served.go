package brokerunit

import (
	"fmt"
	"strings"

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
// leaves the others as they are.
func servingBroker(name string, served []string) string {
	if len(served) == 0 {
		return ""
	}
	var b unitfile.Lines
	b.Add("[Unit]")
	for _, account := range served {
		b.Add("Wants=%[1]s\nAfter=%[1]s", units.LoginSocket(account))
	}
	b.Add("[Service]\nEnvironment=%s", unitfile.Word(sharing.ServesVariable+"="+strings.Join(served, " ")))
	for _, account := range served {
		b.Add("BindReadOnlyPaths=-%s:%s", paths.AccountSocket(account), servedSocket(name, account))
	}
	return b.String()
}

// servedSocket is where the broker of a worker finds the socket of the login of another account.
func servedSocket(name, account string) string {
	return paths.BrokerStates + "/" + name + "/login-" + account + ".sock"
}
