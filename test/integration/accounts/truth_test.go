package accounts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// What is known of the accounts is what the accounts' server says, at once and after restarts; only a reading ends an
// exhaustion. The workers a and c are logged in to one account.
func TestAccountTruth(t *testing.T) {
	t.Parallel()
	testAccountTruth(t, bed.Oldest)
}

func testAccountTruth(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, "", "a", "b", "c=a")
	one, two := b.Server.Account("a"), b.Server.Account("b")
	two.Change(func(q *accountserver.Quota) { q.Windows[1].Used = 96 })
	b.Start()
	b.UntilWorkersReady()
	untilState(b, "a", "available")
	untilState(b, "b", "low")
	untilState(b, "c", "available")
	assert.LessOrEqual(t, len(one.Record().Readings), 2, "one for each worker at most")
	assert.Len(t, two.Record().Readings, 1)
	for _, worker := range []string{"b", "c"} {
		b.MustRun(t, "codex-proxy", "drain", worker)
	}

	t.Log("an update after a turn, of both workers of the account")
	one.Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 8 })
	bed.AskOpenAI(b.Bed)
	for _, worker := range []string{"a", "c"} {
		b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="` + worker + `"} 0.08`)
		b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="` + worker + `"} 0`)
	}

	t.Log("a refusal inside a stream that has begun")
	one.Exhaust(time.Now().Add(time.Hour))
	one.Refuse(accountserver.MidText)
	_, body, err := bed.TryOpenAI(b.Bed)
	require.NoError(t, err)
	t.Log(body)
	require.Equal(t, 1, one.Record().Refused())
	untilState(b, "a", "exhausted")
	untilState(b, "c", "exhausted")
	awaitEvents(b, "account-exhausted", 2)

	t.Log("a restart, a reload and a kill keep it, while no reading is answered")
	one.Read(accountserver.Hanging)
	for _, how := range [][]string{{"systemctl", "restart", bed.ProxyUnit}, {"systemctl", "reload", bed.ProxyUnit},
		{"systemctl", "kill", "--signal=KILL", "--kill-whom=main", bed.ProxyUnit}} {
		pid := b.ProxyPID()
		b.MustRun(t, how...)
		await.True(t, func() bool { p := b.ProxyPID(); return p != pid && p != "0" }, bed.Bound)
		b.UntilWorkersReady() // a reading that hangs keeps no worker from it
		assertState(b, "a", "exhausted")
		assertState(b, "c", "exhausted")
	}
	assert.Len(t, b.Entries(t, "CODEX_EVENT=account-exhausted"), 2, "it is no event again")
	mode := b.MustRun(t, "stat", "--format=%a %U", "/var/lib/codex-proxy/accounts.json")
	assert.Regexp(t, "^600 ", mode)

	t.Log("a corrupt file is written anew")
	b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
	require.NoError(t, b.WriteFile("/var/lib/codex-proxy/accounts.json", []byte(`{"accounts":[`), 0o600))
	b.MustRun(t, "systemctl", "start", bed.ProxyUnit)
	b.UntilWorkersReady()
	awaitEvents(b, "accounts-not-read", 1)
	assertState(b, "a", "unknown")
	one.Read(accountserver.Answered)
	untilState(b, "a", "exhausted")
	untilState(b, "b", "low")
	untilState(b, "c", "exhausted")

	t.Log("an exhausted account is read each minute, all others are not; it is available as soon as a reading shows it")
	idle, before := len(two.Record().Readings), len(one.Record().Readings)
	awaitReadings(b, one, before+2)
	read := one.Record().Readings
	assert.Greater(t, read[before+1].Sub(read[before]), 50*time.Second, "a minute; the first one may have come late")
	assertState(b, "a", "exhausted")
	one.Reset()
	awaitReadings(b, one, before+3)
	untilState(b, "a", "available")
	untilState(b, "c", "available")
	assert.Len(t, two.Record().Readings, idle)
	assert.Len(t, one.Record().Turns, 2, "no reading is a turn")
	assert.Empty(t, two.Record().Turns)

	t.Log("an expired token is refreshed; a login that was revoked is reported, until the next login")
	two.Expire()
	b.MustRun(t, "systemctl", "restart", "codex-worker@b.service")
	b.UntilWorkersReady()
	awaitReadings(b, two, idle+1)
	b.AwaitRecord(func() bool { return len(two.Record().Refreshes) == 1 })
	assertState(b, "b", "low")
	assert.Empty(t, b.Entries(t, "CODEX_EVENT=account-login-invalid"))
	two.Invalidate()
	b.MustRun(t, "systemctl", "restart", "codex-worker@b.service")
	untilState(b, "b", "login_invalid")
	awaitEvents(b, "account-login-invalid", 1)
	two.Validate()
	require.NoError(t, b.WriteFile("/root/auth.json", two.Login(), 0o600))
	b.MustRun(t, "cp", "--no-preserve=all", "/root/auth.json", "/var/lib/codex-worker/b/auth.json")
	b.MustRun(t, "systemctl", "restart", "codex-worker@b.service")
	untilState(b, "b", "low")
}

func stateMetric(account, state string) string {
	return `codex_account_state{account="` + account + `",state="` + state + `"} 1`
}

func untilState(a *bed.AccountsBed, account, state string) {
	a.T.Helper()
	a.UntilMetric(stateMetric(account, state))
}

func assertState(a *bed.AccountsBed, account, state string) {
	a.T.Helper()
	_, text := a.Get("/metrics")
	assert.Contains(a.T, string(text), stateMetric(account, state)+"\n")
}

// awaitReadings waits until the accounts' server has received so many readings of an account.
func awaitReadings(a *bed.AccountsBed, account *accountserver.Account, n int) {
	a.T.Helper()
	a.AwaitRecord(func() bool { return len(account.Record().Readings) >= n })
}

// awaitEvents waits until the journal has so many entries of an event.
func awaitEvents(a *bed.AccountsBed, event string, n int) {
	a.T.Helper()
	await.True(a.T, func() bool { return len(a.Entries(a.T, "CODEX_EVENT="+event)) >= n }, bed.Bound)
	assert.Len(a.T, a.Entries(a.T, "CODEX_EVENT="+event), n)
}
