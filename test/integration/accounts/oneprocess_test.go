package accounts

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

// oneCodex has one codex serve all accounts.
const oneCodex = "[accounts]\nprocesses = 1\nrotation = \"ordered\"\n"

// TestOneProcess is one codex for several accounts: their existing logins move, each request goes out with the login of
// its turn's account, everything that accounts promise holds, and each account has a codex of its own again afterwards.
func TestOneProcess(t *testing.T) { bed.BothSuites(t, testOneProcess) }

func testOneProcess(t *testing.T, suite string) {
	b := bed.WithAccounts(bed.New(t, suite, bed.AccountWorker, oneCodex), apart+bed.AccountWorker, "a", "b", "c", "d")
	b.Start()
	b.UntilWorkersReady()
	assertServes(b, b.Workers...)
	for _, name := range b.Workers {
		assert.Contains(t, b.MustRun(t, "cat", loginHome+name+"/auth.json"), secret, "its login has moved")
		assert.Empty(t, b.Server.Account(name).Record().Refreshes)
	}
	bed.DoctorFindsNothing(b.Bed)

	t.Log("policy: the limits of an account are known by the answers of its turns")
	b.Server.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Used, q.Windows[0].Cost = 42, 8 })
	b.Server.Account("b").Change(func(q *accountserver.Quota) { q.Windows[0].Used, q.Windows[0].Cost = 20, 10 })
	servesNow(b, "a")
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.5`)
	switches(b)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="b"} 0.3`)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="c"} 0`)
	b.Server.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 0 })
	b.Server.Account("b").Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 0 })
	pauses(b)
	limitsKeys(b)

	t.Log("a token that is refused is renewed once, for the turns of its account alone")
	testTokenEnds(b)
	assert.Empty(t, b.Server.Account("b").Record().Refreshes)

	t.Log("a turn that is refused for its quota runs on the next account, without the reasoning of the first one")
	for form, next := range forms() {
		t.Run(form, func(t *testing.T) { carriesOver(b, t, "one-"+form, accountserver.ByStatus, next) })
	}
	untilRow(b, "c", "^available; in use")

	t.Log("a login that is revoked takes out its account alone")
	b.Server.Account("c").Invalidate()
	status, _, body := chooses(b, "", "c")
	assert.NotEqual(t, http.StatusOK, status, body)
	untilState(b, "c", "login_invalid")
	servesNow(b, "d")

	t.Log("a drain is for the codex")
	h := bed.Hold(b.Bed, "drain")
	b.MustRun(t, "codex-proxy", "drain", "a")
	status, _, _ = chooses(b, "", "d")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	b.MustRun(t, "codex-proxy", "undrain", "a")
	h.Finish(b.Bed)
	assertServes(b, b.Workers...)

	t.Log("the socket of one login restarts, without an end of codex")
	b.MustRun(t, "systemctl", "restart", "codex-login@d.socket")
	answers(b, "d")

	t.Log("the serving account loses its login, and then its worker; the others go on")
	b.MustRun(t, "mv", loginHome+"a/auth.json", "/root")
	b.MustRun(t, "systemctl", "stop", loginUnit("a")) // it has the login in memory
	b.MustRun(t, "systemctl", "restart", unitOf("a"))
	b.UntilWorkersReady()
	answers(b, "d")
	status, _, _ = chooses(b, "", "a")
	assert.NotEqual(t, http.StatusOK, status)
	b.MustRun(t, "mv", "/root/auth.json", loginHome+"a")
	order(b, "remove", "a")
	all := b.Workers
	b.Workers = all[1:]
	b.UntilWorkersReady()
	assertServes(b, b.Workers...)
	answers(b, "d")

	t.Log("a worker that comes back does not take the place of the codex that runs")
	require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/a.toml", []byte(apart+bed.AccountWorker), 0o644))
	b.MustRun(t, "systemctl", "enable", unitOf("a")) // with a daemon-reload
	b.MustRun(t, "systemctl", "restart", unitOf("b"))
	answers(b, "d")

	t.Log("systemd reloads while the codex waits for its restart")
	b.DropIn(unitOf("b"), "slow", "[Service]\nRestartSec=1h\n")
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", unitOf("b"))
	b.UntilShow(unitOf("b"), "SubState", "auto-restart")
	b.MustRun(t, "systemctl", "daemon-reload")
	assert.Equal(t, "auto-restart", b.Properties(unitOf("b"), "SubState")["SubState"])
	b.MustRun(t, "systemctl", "restart", unitOf("b"))
	b.UntilWorkersReady()
	assert.Equal(t, "active", b.Properties(unitOf("b"), "ActiveState")["ActiveState"])
	assert.Equal(t, "inactive", b.Properties(unitOf("a"), "ActiveState")["ActiveState"])
	answers(b, "d")
	b.DropIn(unitOf("b"), "slow", "")
	b.Workers = all

	t.Log("each account has a codex of its own again")
	b.Server.Account("a").Reset()
	b.Server.Account("b").Reset()
	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte(ordered), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "restart", "codex-worker@*.service")
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.MustRun(t, "systemctl", "reload", "codex-proxy")
	b.UntilWorkersReady()
	for _, name := range b.Workers {
		assertServes(b, name)
		if name == "c" { // its login is gone
			continue
		}
		untilRow(b, name, "^available")
		answers(b, name)
	}
	assert.Len(t, b.Server.Account("a").Record().Refreshes, 1, "no new login")
}

// answers asserts that a turn of the account succeeds.
func answers(b *bed.AccountsBed, account string) {
	b.T.Helper()
	status, _, body := chooses(b, "", account)
	assert.Equal(b.T, http.StatusOK, status, body)
}

// assertServes asserts that the codex of the first account alone runs, and serves them all.
func assertServes(b *bed.AccountsBed, accounts ...string) {
	b.T.Helper()
	for i, name := range accounts {
		want := "inactive"
		if i == 0 {
			want = "active"
		}
		for _, unit := range []string{unitOf(name), brokerUnit(name)} {
			assert.Equal(b.T, want, b.Properties(unit, "ActiveState")["ActiveState"], unit)
		}
	}
	text := b.MustRun(b.T, "cat", "/run/codex-broker-run/"+accounts[0]+"/state.json")
	if served := fmt.Sprintf(`"accounts":["%s"]`, strings.Join(accounts, `","`)); len(accounts) > 1 {
		assert.Contains(b.T, text, served)
	} else {
		assert.NotContains(b.T, text, `"accounts":`)
	}
}
