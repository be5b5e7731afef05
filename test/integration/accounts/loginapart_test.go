package accounts

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

const (
	apart     = "network = \"model\"\n"
	loginHome = "/var/lib/codex-login/"
	// secret is in each token of the accounts' server.
	secret = "SECRET"
)

func loginUnit(worker string) string  { return "codex-login@" + worker + ".service" }
func brokerUnit(worker string) string { return "codex-broker@" + worker + ".service" }

// TestLoginApart is a worker without a login: its existing one moves to codex-login@.service, the accounts are what they
// were, nothing of it is in the worker or can be reached from it, and it moves back.
func TestLoginApart(t *testing.T) { bed.BothSuites(t, testLoginApart) }

func testLoginApart(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, "[accounts]\nrotation = \"ordered\"\norder = [\"a\", \"b\"]\n", "a", "b")
	b.Server.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Used, q.Windows[0].Cost = 42, 8 })
	b.Start()
	b.UntilWorkersReady()
	require.Contains(t, tokensOf(b, "a"), "home", "the search finds a login")
	before := b.MustRun(t, "cat", "/var/lib/codex-worker/a/auth.json")

	setNetwork(b, apart, "a", "b")
	assert.Equal(t, before, b.MustRun(t, "cat", loginHome+"a/auth.json"), "the login has moved")
	assert.Regexp(t, `^600 `, bed.Owner(b.Bed, loginHome+"a/auth.json"))
	bed.AskOpenAI(b.Bed)
	assert.Len(t, b.Server.Account("a").Record().Turns, 1)
	assert.Empty(t, b.Server.Account("a").Record().Refreshes, "no new login, and no refresh")
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.5`) // by the answer of the turn
	b.UntilMetric(`codex_model_requests_total{kind="turn",worker="a"} 1`)           // the daemon reads the state of its broker
	untilRow(b, "a", `^available; in use .* login ChatGPT`)
	assert.Empty(t, tokensOf(b, "a"))
	assert.Contains(t, memory(b, b.OnlyProcess(brokerUnit("a")).Inside), "found", "the search finds a token")
	assertClosed(b, "a")

	assert.Regexp(t, `exposure level for codex-login@a.service: (0|1\.[0-5]) `,
		b.MustRun(t, "systemd-analyze", "security", "--no-pager", loginUnit("a")))

	testTokenEnds(b)
	testUnitsKilled(b)
	testNextAccount(b)
	testPlantedLogin(b)
	testNewLogin(b)

	b.Server.Account("a").Reset()
	setNetwork(b, "", "a")
	assert.Contains(t, b.MustRun(t, "cat", "/var/lib/codex-worker/a/auth.json"), "refresh-SECRET")
	assert.Equal(t, "b\n", b.MustRun(t, "ls", loginHome), "the login is back")
	untilRow(b, "a", "^available")
	b.MustRun(t, "codex-proxy", "accounts", "remove", "b", "--purge")
	assert.Empty(t, b.MustRun(t, "bash", "-c", "find "+loginHome+" /var/lib/private/codex-login/ -mindepth 1"))
	bed.AskOpenAI(b.Bed)
}

// setNetwork changes the network of workers, as an operator does.
func setNetwork(b *bed.AccountsBed, network string, workers ...string) {
	b.T.Helper()
	restart := []string{"systemctl", "restart"}
	for _, worker := range workers {
		file := "/etc/codex-proxy/workers/" + worker + ".toml"
		require.NoError(b.T, b.WriteFile(file, []byte(network+bed.AccountWorker), 0o644))
		restart = append(restart, unitOf(worker))
	}
	b.MustRun(b.T, "systemctl", "daemon-reload")
	_, _, err := b.Run(b.T.Context(), restart...)
	require.NoError(b.T, err, "%s\n%s", b.UnitJournal(unitOf(workers[0])), b.UnitJournal(loginUnit(workers[0])))
	b.UntilWorkersReady()
}

// tokensOf names the places of a worker that have a token or a login.
func tokensOf(b *bed.AccountsBed, worker string) (places []string) {
	b.T.Helper()
	processes, err := b.Processes(unitOf(worker))
	require.NoError(b.T, err)
	require.NotEmpty(b.T, processes)
	look := func(where, script string) {
		if out, _, _ := b.Run(b.T.Context(), "bash", "-c", script); strings.Contains(out, "found") {
			places = append(places, where)
		}
	}
	for _, p := range processes {
		dir := fmt.Sprintf("/proc/%d/", p.Inside)
		look("environ", "grep -qa "+secret+" "+dir+"environ && echo found")
		look("cmdline", "grep -qa "+secret+" "+dir+"cmdline && echo found")
		look("descriptors", "for f in "+dir+"fd/*; do [ -f $f ] && grep -qa "+secret+" $f && echo found; done")
		if strings.Contains(memory(b, p.Inside), "found") {
			places = append(places, "memory")
		}
	}
	look("home", "grep -rqa "+secret+" /var/lib/codex-worker/"+worker+"/ && echo found")
	look("runtime", "grep -rqa --devices=skip "+secret+" /run/codex-worker/"+worker+"/ && echo found")
	return places
}

// memory prints "found" if the memory of a process has a token.
func memory(b *bed.AccountsBed, pid int) string {
	out, _, _ := b.Run(b.T.Context(), "bash", "-c", fmt.Sprintf(`while IFS=' -' read -r a b p _; do case $p in r*)
dd if=/proc/%[1]d/mem bs=65536 iflag=skip_bytes,count_bytes skip=$((16#$a)) count=$((16#$b - 16#$a)) 2>/dev/null;; esac
done </proc/%[1]d/maps | grep -qaF .%[2]s && echo found; true`, pid, secret))
	return out
}

// assertClosed tries, as the user of a worker and in its mounts, to reach what has its login.
func assertClosed(b *bed.AccountsBed, worker string) {
	b.T.Helper()
	in := bed.InWorker(b.Bed, worker)
	as := func(uid string, mounts int, script string) (string, error) {
		out, talk, err := b.Run(b.T.Context(), "nsenter", "-t", fmt.Sprint(mounts), "-m", "-n", "--",
			"setpriv", "--reuid", uid, "--clear-groups", "--no-new-privs", "bash", "-c", script)
		return out + talk, err
	}
	connect := `perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $!' `
	for _, mounts := range []int{in.Codex, 1} { // of its unit, and of the machine
		for _, script := range []string{
			connect + "/run/codex-login/" + worker + ".sock", connect + "/run/codex-login-own/" + worker + ".sock", connect + "/run/codex-broker-run/" + worker + "/login.sock",
			"ls " + loginHome + worker + "/", "ls /var/lib/private/codex-login/", "ls /run/codex-login/",
			"ls /run/codex-login-run/" + worker,
			fmt.Sprintf("cat /proc/%d/environ", b.OnlyProcess(brokerUnit(worker)).Inside),
		} {
			out, err := as(in.UID, mounts, script)
			assert.Error(b.T, err, "%s: %s", script, out)
		}
	}
	out, err := as(in.UID, in.Codex, "exec 3<>/dev/tcp/127.0.0.1/8790 && echo connected")
	require.NoError(b.T, err, out)
	out, _ = as(in.UID, in.Codex, `exec 3<>/dev/tcp/127.0.0.1/8790
printf 'GET /wham/usage HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3; cat <&3`)
	assert.Contains(b.T, out, "404", "the account is not there for other requests")
	for _, address := range []string{"127.0.0.1/443", "1.1.1.1/443"} {
		out, err := as(in.UID, in.Codex, "exec 3<>/dev/tcp/"+address)
		assert.Error(b.T, err, "%s: %s", address, out)
	}
}

// testTokenEnds refuses all tokens: each turn runs, and all that wait cause one refresh.
func testTokenEnds(b *bed.AccountsBed) {
	b.T.Helper()
	a := b.Server.Account("a")
	a.Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 0 })
	a.Expire()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			status, body, err := bed.TryOpenAI(b.Bed)
			assert.NoError(b.T, err)
			assert.Equal(b.T, http.StatusOK, status, body)
		})
	}
	all.Wait()
	assert.Len(b.T, a.Record().Refreshes, 1)
	assert.Empty(b.T, tokensOf(b, "a"))
}

// testUnitsKilled kills the unit of the login in the middle of an answer, which is whole. Then it kills that and the broker
// while the token ends, in a turn whose answer has not begun: the turn runs.
func testUnitsKilled(b *bed.AccountsBed) {
	b.T.Helper()
	kill := func(unit string) {
		processes, err := b.Processes(unit)
		require.NoError(b.T, err)
		for _, p := range processes {
			if err := unix.Kill(p.Host, unix.SIGKILL); !errors.Is(err, unix.ESRCH) { // it may have ended with another one
				require.NoError(b.T, err)
			}
		}
	}
	h := bed.Hold(b.Bed, "login")
	kill(loginUnit("a"))
	h.Finish(b.Bed)
	b.Server.Account("a").Expire()
	done := make(chan string, 1)
	go func() {
		status, body, err := bed.TryOpenAI(b.Bed)
		done <- fmt.Sprint(status, body, err)
	}()
	kill(loginUnit("a"))
	kill(brokerUnit("a"))
	assert.Regexp(b.T, "^200", <-done)
	kill(loginUnit("a"))
	bed.AskOpenAI(b.Bed)
}

// testNextAccount uses up the quota of the account: the turn that is refused runs on the next one.
func testNextAccount(b *bed.AccountsBed) {
	b.T.Helper()
	b.Server.Account("a").Exhaust(time.Now().Add(time.Hour))
	turns := len(b.Server.Account("b").Record().Turns)
	bed.AskOpenAI(b.Bed)
	assert.Len(b.T, b.Server.Account("b").Record().Turns, turns+1)
	untilRow(b, "a", "^exhausted")
	untilRow(b, "b", "^available; in use")
}

// testPlantedLogin puts a login into the home of a worker, as a tool may: the worker does not start with it, and nothing
// moves it.
func testPlantedLogin(b *bed.AccountsBed) {
	b.T.Helper()
	planted := "/var/lib/codex-worker/b/auth.json"
	kept := b.MustRun(b.T, "cat", loginHome+"b/auth.json")
	require.NoError(b.T, b.WriteFile(planted, []byte("{}"), 0o600))
	b.MustRun(b.T, "chown", "--reference=/var/lib/codex-worker/b/config.toml", planted)
	_, _, err := b.Run(b.T.Context(), "systemctl", "restart", unitOf("b"))
	require.Error(b.T, err)
	assert.Contains(b.T, b.UnitJournal(unitOf("b")), "codex would have the login in /var/lib/codex-worker/b/auth.json")
	assert.Equal(b.T, kept, b.MustRun(b.T, "cat", loginHome+"b/auth.json"))
	b.MustRun(b.T, "rm", planted)
	b.MustRun(b.T, "systemctl", "restart", unitOf("b"))
	b.UntilWorkersReady()
}

// testNewLogin logs a worker in with an API key: its turns go out with that, and the login of before is revoked.
func testNewLogin(b *bed.AccountsBed) {
	b.T.Helper()
	const key = "sk-test." + secret
	bed.LogIn(b.Bed, "b", key)
	b.UntilWorkersReady()
	bed.AskOpenAI(b.Bed)
	assert.Contains(b.T, b.Server.Keys(), key)
	assert.Equal(b.T, 1, b.Server.Revoked())
	assert.Empty(b.T, tokensOf(b, "b"))
	assert.Contains(b.T, b.MustRun(b.T, "cat", loginHome+"b/auth.json"), key)
	untilRow(b, "b", "login API key")
}
