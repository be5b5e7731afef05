package bed

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// AccountWorker is a worker with a ChatGPT login, whose models are OpenAI's and that of the other tests.
const AccountWorker = PlainWorker + "model = \"" + Model + "\"\n"

// OneProcessEnv is the environment variable that has one codex serve all accounts of an AccountsBed, if it is 1.
const OneProcessEnv = "CODEX_PROXY_TEST_ONE_PROCESS"

// OneProcess reports whether one codex serves all accounts of an AccountsBed.
func OneProcess() bool { return os.Getenv(OneProcessEnv) == "1" }

// inOneProcess sets the service to one codex for all accounts, which is no standby, and returns the worker file for
// that. A test with this setting keeps its own.
func (b *Bed) inOneProcess(worker string) string {
	b.T.Helper()
	const accounts, one = "[accounts]\n", "processes = 1\n"
	config := strings.Replace(b.MustRun(b.T, "cat", ConfigFile), "warm = 1\n", "", 1)
	switch {
	case strings.Contains("\n"+config, "\n"+one):
	case strings.Contains("\n"+config, "\n"+accounts):
		config = strings.Replace("\n"+config, "\n"+accounts, "\n"+accounts+one, 1)
	default:
		config += "\n" + accounts + one
	}
	require.NoError(b.T, b.WriteFile(ConfigFile, []byte(config), 0o644))
	const network = "network = \"model\"\n"
	return network + strings.Replace(worker, network, "", 1)
}

// AccountsBed is a bed whose workers have ChatGPT logins at the stand-in of the accounts' server. codex has its
// own settings.
type AccountsBed struct {
	*Bed
	Server *accountserver.Server
}

// NewAccounts installs the package, with a worker for each name that is logged in to the account of that name;
// "b=a" is a worker b that is logged in to the account a of another worker. Nothing of ours runs yet.
func NewAccounts(t *testing.T, suite, config string, names ...string) *AccountsBed {
	t.Helper()
	b := New(t, suite, AccountWorker, config)
	return WithAccounts(b, AccountWorker, names...)
}

// WithAccounts replaces the worker "default" by workers that have this worker file, and are logged in to the
// accounts of their names; see NewAccounts.
func WithAccounts(b *Bed, worker string, names ...string) *AccountsBed {
	b.T.Helper()
	if OneProcess() {
		worker = b.inOneProcess(worker)
	}
	a := &AccountsBed{Bed: b}
	b.Workers = nil
	logins := map[string]string{}
	var own []string
	for _, name := range names {
		worker, account, shared := strings.Cut(name, "=")
		if !shared {
			account, own = worker, append(own, worker)
		}
		b.Workers, logins[worker] = append(b.Workers, worker), account
	}
	a.Server = accountserver.New(b.Models, own...)
	b.serveHosts(a.Server)
	b.MustRun(b.T, "systemctl", "mask", WorkerUnit) // codex.target wants it
	b.MustRun(b.T, "rm", WorkerFile)
	enable := []string{"systemctl", "enable"} // at once: each call lets systemd read all units anew
	for _, name := range b.Workers {
		require.NoError(b.T, b.WriteFile("/etc/codex-proxy/workers/"+name+".toml", []byte(worker), 0o644))
		logInBefore(b, name, a.Server.Account(logins[name]))
		enable = append(enable, "codex-worker@"+name+".service")
	}
	b.MustRun(b.T, enable...)
	return a
}

// logInBefore writes the login into a worker's home, which belongs to root until systemd gives it to the worker's
// user, with all its files, at the first start of the unit.
func logInBefore(b *Bed, worker string, account *accountserver.Account) {
	b.T.Helper()
	home := "/var/lib/codex-worker/" + worker
	b.MustRun(b.T, "install", "-d", "-m", "0700", "-o", "root", "-g", "root", home)
	require.NoError(b.T, b.WriteFile(home+"/auth.json", account.Login(), 0o600))
	b.MustRun(b.T, "chown", "-R", "root:root", home)
}

// Serving are the workers whose units run.
func (a *AccountsBed) Serving() []string {
	if OneProcess() {
		return a.Workers[:1]
	}
	return a.Workers
}

// UntilWorkersReady waits until each worker is ready.
func (a *AccountsBed) UntilWorkersReady() {
	a.T.Helper()
	a.Until("all workers ready", func(_ int, r Report) bool {
		for _, w := range r.Workers {
			if !w.Ready {
				return false
			}
		}
		return len(r.Workers) == len(a.Workers)
	})
}

// AwaitRecord waits until what the accounts' server has received is enough.
func (a *AccountsBed) AwaitRecord(enough func() bool) {
	a.T.Helper()
	const several = 4 * time.Minute // readings of an exhausted account are a minute apart
	ctx, cancel := context.WithTimeout(a.T.Context(), several)
	defer cancel()
	require.NoError(a.T, a.Server.Wait(ctx, enough))
}

// AllRefused counts the turns that were refused for a quota.
func (a *AccountsBed) AllRefused() (n int) {
	for _, account := range a.Server.Accounts() {
		n += account.Record().Refused()
	}
	return n
}
