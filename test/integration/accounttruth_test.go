package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// What is known of the accounts is what the accounts' server says, at once and after restarts; only a reading ends an
// exhaustion. The workers a and c are logged in to one account.
func TestAccountTruth(t *testing.T) { bothSuites(t, testAccountTruth) }

func testAccountTruth(t *testing.T, suite string) {
	b := newAccountsBed(t, suite, "", "a", "b", "c=a")
	one, two := b.server.Account("a"), b.server.Account("b")
	two.Change(func(q *accountserver.Quota) { q.Windows[1].Used = 96 })
	b.start()
	b.untilWorkersReady()
	b.untilState("a", "available")
	b.untilState("b", "low")
	b.untilState("c", "available")
	assert.LessOrEqual(t, len(one.Record().Readings), 2, "one for each worker at most")
	assert.Len(t, two.Record().Readings, 1)
	for _, worker := range []string{"b", "c"} {
		b.MustRun(t, "codex-proxy", "drain", worker)
	}

	t.Log("an update after a turn, of both workers of the account")
	one.Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 8 })
	b.askOpenAI()
	for _, worker := range []string{"a", "c"} {
		b.untilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="` + worker + `"} 0.08`)
		b.untilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="` + worker + `"} 0`)
	}

	t.Log("a refusal inside a stream that has begun")
	one.Exhaust(time.Now().Add(time.Hour))
	one.Refuse(accountserver.MidText)
	_, body, err := b.tryOpenAI()
	require.NoError(t, err)
	t.Log(body)
	require.Equal(t, 1, one.Record().Refused())
	b.untilState("a", "exhausted")
	b.untilState("c", "exhausted")
	b.awaitEvents("account-exhausted", 2)

	t.Log("a restart, a reload and a kill keep it, while no reading is answered")
	one.Read(accountserver.Hanging)
	for _, how := range [][]string{{"systemctl", "restart", proxyUnit}, {"systemctl", "reload", proxyUnit},
		{"systemctl", "kill", "--signal=KILL", "--kill-whom=main", proxyUnit}} {
		pid := b.mainPID()
		b.MustRun(t, how...)
		require.Eventually(t, func() bool { p := b.mainPID(); return p != pid && p != "0" }, bound, 20*time.Millisecond)
		b.untilWorkersReady() // a reading that hangs keeps no worker from it
		b.assertState("a", "exhausted")
		b.assertState("c", "exhausted")
	}
	assert.Len(t, b.entries(t, "CODEX_EVENT=account-exhausted"), 2, "it is no event again")
	mode := b.MustRun(t, "stat", "--format=%a %U", "/var/lib/codex-proxy/accounts.json")
	assert.Regexp(t, "^600 ", mode)

	t.Log("a corrupt file is written anew")
	b.MustRun(t, "systemctl", "stop", proxyUnit)
	require.NoError(t, b.WriteFile("/var/lib/codex-proxy/accounts.json", []byte(`{"accounts":[`), 0o600))
	b.MustRun(t, "systemctl", "start", proxyUnit)
	b.untilWorkersReady()
	b.awaitEvents("accounts-not-read", 1)
	b.assertState("a", "unknown")
	one.Read(accountserver.Answered)
	b.untilState("a", "exhausted")
	b.untilState("b", "low")
	b.untilState("c", "exhausted")

	t.Log("an exhausted account is read each minute, all others are not; it is available as soon as a reading shows it")
	idle, before := len(two.Record().Readings), len(one.Record().Readings)
	b.awaitReadings(one, before+2)
	read := one.Record().Readings
	assert.Greater(t, read[before+1].Sub(read[before]), 50*time.Second, "a minute; the first one may have come late")
	b.assertState("a", "exhausted")
	one.Reset()
	b.awaitReadings(one, before+3)
	b.untilState("a", "available")
	b.untilState("c", "available")
	assert.Len(t, two.Record().Readings, idle)
	assert.Len(t, one.Record().Turns, 2, "no reading is a turn")
	assert.Empty(t, two.Record().Turns)

	t.Log("an expired token is refreshed; a login that was revoked is reported, until the next login")
	two.Expire()
	b.MustRun(t, "systemctl", "restart", "codex-worker@b.service")
	b.untilWorkersReady()
	b.awaitReadings(two, idle+1)
	b.awaitRecord(func() bool { return len(two.Record().Refreshes) == 1 })
	b.assertState("b", "low")
	assert.Empty(t, b.entries(t, "CODEX_EVENT=account-login-invalid"))
	two.Invalidate()
	b.MustRun(t, "systemctl", "restart", "codex-worker@b.service")
	b.untilState("b", "login_invalid")
	b.awaitEvents("account-login-invalid", 1)
	two.Validate()
	require.NoError(t, b.WriteFile("/root/auth.json", two.Login(), 0o600))
	b.MustRun(t, "cp", "--no-preserve=all", "/root/auth.json", "/var/lib/codex-worker/b/auth.json")
	b.MustRun(t, "systemctl", "restart", "codex-worker@b.service")
	b.untilState("b", "low")
}

func stateMetric(account, state string) string {
	return `codex_account_state{account="` + account + `",state="` + state + `"} 1`
}

func (a *accountsBed) untilState(account, state string) {
	a.t.Helper()
	a.untilMetric(stateMetric(account, state))
}

func (a *accountsBed) assertState(account, state string) {
	a.t.Helper()
	_, text := a.get("/metrics")
	assert.Contains(a.t, string(text), stateMetric(account, state)+"\n")
}

// awaitReadings waits until the accounts' server has received so many readings of an account.
func (a *accountsBed) awaitReadings(account *accountserver.Account, n int) {
	a.t.Helper()
	a.awaitRecord(func() bool { return len(account.Record().Readings) >= n })
}

// awaitRecord waits until what the accounts' server has received is enough.
func (a *accountsBed) awaitRecord(enough func() bool) {
	a.t.Helper()
	const several = 4 * time.Minute // readings of an exhausted account are a minute apart
	ctx, cancel := context.WithTimeout(a.t.Context(), several)
	defer cancel()
	require.NoError(a.t, a.server.Wait(ctx, enough))
}

// awaitEvents waits until the journal has so many entries of an event.
func (a *accountsBed) awaitEvents(event string, n int) {
	a.t.Helper()
	require.Eventually(a.t, func() bool { return len(a.entries(a.t, "CODEX_EVENT="+event)) >= n }, bound,
		50*time.Millisecond)
	assert.Len(a.t, a.entries(a.t, "CODEX_EVENT="+event), n)
}
