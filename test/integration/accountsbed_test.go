package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// accountWorker is a worker with a ChatGPT login, whose models are OpenAI's and that of the other tests.
const accountWorker = plainWorker + "model = \"" + model + "\"\n"

// accountsBed is a bed whose workers have ChatGPT logins at the stand-in of the accounts' server. codex has its
// own settings.
type accountsBed struct {
	*bed
	server *accountserver.Server
}

// newAccountsBed installs the package, with a worker for each name that is logged in to the account of that name;
// "b=a" is a worker b that is logged in to the account a of another worker. Nothing of ours runs yet.
func newAccountsBed(t *testing.T, suite, config string, names ...string) *accountsBed {
	t.Helper()
	b := newBed(t, suite, accountWorker, config)
	return b.withAccounts(accountWorker, names...)
}

// withAccounts replaces the worker "default" by workers that have this worker file, and are logged in to the
// accounts of their names; see newAccountsBed.
func (b *bed) withAccounts(worker string, names ...string) *accountsBed {
	b.t.Helper()
	a := &accountsBed{bed: b}
	b.workers = nil
	logins := map[string]string{}
	var own []string
	for _, name := range names {
		worker, account, shared := strings.Cut(name, "=")
		if !shared {
			account, own = worker, append(own, worker)
		}
		b.workers, logins[worker] = append(b.workers, worker), account
	}
	a.server = accountserver.New(b.models, own...)
	b.serveHosts(a.server)
	b.MustRun(b.t, "systemctl", "mask", workerUnit) // codex.target wants it
	b.MustRun(b.t, "rm", workerFile)
	enable := []string{"systemctl", "enable"} // at once: each call lets systemd read all units anew
	for _, name := range b.workers {
		require.NoError(b.t, b.WriteFile("/etc/codex-proxy/workers/"+name+".toml", []byte(worker), 0o644))
		b.logInBefore(name, a.server.Account(logins[name]))
		enable = append(enable, "codex-worker@"+name+".service")
	}
	b.MustRun(b.t, enable...)
	return a
}

// logInBefore writes the login into a worker's home, which belongs to root until systemd gives it to the worker's
// user, with all its files, at the first start of the unit.
func (b *bed) logInBefore(worker string, account *accountserver.Account) {
	b.t.Helper()
	home := "/var/lib/codex-worker/" + worker
	b.MustRun(b.t, "install", "-d", "-m", "0700", "-o", "root", "-g", "root", home)
	require.NoError(b.t, b.WriteFile(home+"/auth.json", account.Login(), 0o600))
	b.MustRun(b.t, "chown", "-R", "root:root", home)
}

// logInAgain replaces the login of a worker that has run, and starts it with that. The file keeps its owner.
func (a *accountsBed) logInAgain(worker string) error {
	account := a.server.Account(worker)
	account.Validate()
	return a.WriteFile("/var/lib/codex-worker/"+worker+"/auth.json", account.Login(), 0o600)
}

// untilWorkersReady waits until each worker is ready.
func (a *accountsBed) untilWorkersReady() {
	a.t.Helper()
	a.until("all workers ready", func(_ int, r report) bool {
		for _, w := range r.Workers {
			if !w.Ready {
				return false
			}
		}
		return len(r.Workers) == len(a.workers)
	})
}
