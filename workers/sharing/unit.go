package sharing

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// ServesVariable is the variable of a worker and of its broker with the accounts that the worker serves beside its own,
// with a space between them.
const ServesVariable = "CODEX_SERVES"

// link is the name of a link next to the generated drop-ins of a unit that does not run: it leads to the drop-ins of
// the worker in its place.
const link = "serving-worker"

// Mark writes the link of an account into the directory of generated units, and returns where systemd finds it.
func Mark(dir, name, host string) (path string, err error) {
	below := units.Worker(name) + ".d"
	if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(dir, below, link)
	return path, os.Symlink("../"+units.Worker(host)+".d", path)
}

// Host returns the worker that serves the account, by the directory of generated units; empty: its own does.
func Host(dir, name string) string {
	to, err := os.Readlink(filepath.Join(dir, units.Worker(name)+".d", link))
	if err != nil {
		return ""
	}
	_, instance, _ := strings.Cut(filepath.Base(to), "@")
	host := strings.TrimSuffix(instance, ".service.d")
	if units.ValidName(host) != nil {
		return ""
	}
	return host
}

// Generated returns the hosts of the named accounts, if they are among these names, by the directory of generated
// units.
func Generated(dir string, names []string) Hosts {
	hosts := Hosts{}
	for _, name := range names {
		if host := Host(dir, name); slices.Contains(names, host) {
			hosts[name] = host
		}
	}
	return hosts
}

// Of returns the worker that serves the account: mostly its own.
func (h Hosts) Of(account string) string { return cmp.Or(h[account], account) }

// AccountsPath begins the path of the requests of one account to the broker of the worker that serves it. The name of
// the account is next.
const AccountsPath = "/accounts/"

// ThreadConfig has the keys of codex's settings for the threads of one of several accounts: their requests name it.
func ThreadConfig(account string) map[string]string {
	const key = "model_providers." + codexhome.OfAccounts + ".base_url"
	return map[string]string{key: "http://" + paths.BrokerAddress + AccountsPath + account}
}
