package remotes

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/workers/accounts"
)

// remoteAccountsConfig keeps one worker warm: the login of any other account is lent by a standby that starts for it.
const remoteAccountsConfig = "[accounts]\nrotation = %q\norder = [\"a\", \"b\", \"c\"]\n"

// lentRemote is a remote that the accounts serve.
func lentRemote(a *bed.AccountsBed, name string) bed.Remote {
	a.T.Helper()
	a.DropIn("codex-remote@.service", "openai", "[Service]\nEnvironment=SSL_CERT_FILE="+bed.Authority+"\n")
	r := bed.NewRemote(a.Bed, name, "", "")
	r.Write(fmt.Sprintf("directory = \"/srv/%s\"\nmodel = %q\ncodex_path = \"%s/bin/codex\"\n", name, "gpt-5.5", bed.CodexDir))
	return r
}

// turnsOf is how many turns an account has served, and how many it has refused.
func turnsOf(a *bed.AccountsBed, account string) (accepted, refused int) {
	record := a.Server.Account(account).Record()
	return record.Accepted(), record.Refused()
}

// awaitSwitch waits until the account's server has refused a turn, and the next account has got one, and returns the time
// between them.
func awaitSwitch(a *bed.AccountsBed, from, to string, turns int) time.Duration {
	a.T.Helper()
	a.AwaitRecord(func() bool {
		accepted, _ := turnsOf(a, to)
		_, refused := turnsOf(a, from)
		return refused == 1 && accepted == turns
	})
	at := func(account string) time.Time {
		all := a.Server.Account(account).Record().Turns
		return all[len(all)-1].At
	}
	return at(to).Sub(at(from))
}

// The quota of an account ends in a turn of a remote, and that of the next one: the same turn goes on. Workers on standby
// start for it, tools see no token, and a kill of the service in between changes nothing.
func TestRemoteAccounts(t *testing.T) { bed.EitherSuite(t, testRemoteAccounts) }

func testRemoteAccounts(t *testing.T, suite string) {
	a := bed.NewAccounts(t, suite, fmt.Sprintf(remoteAccountsConfig, "ordered")+"warm = 1\n", "a", "b", "c")
	// The login of b is not in its worker: it is lent without that worker.
	apart := []byte("network = \"model\"\n" + bed.AccountWorker)
	require.NoError(t, a.WriteFile("/etc/codex-proxy/workers/b.toml", apart, 0o644))
	r := lentRemote(a, "build")
	a.MustRun(t, "systemctl", "daemon-reload")
	a.Start()
	p := attach(r)
	thread := p.say("", "first")
	assert.Equal(t, "completed", p.endOfTurn())
	assert.Equal(t, "a", borrows(a, r))
	a.UntilMetric(`codex_account_remotes{account="a"} 1`)
	p.seesNoToken()
	refusesStrangers(a)

	step := func(n int) []string {
		return []string{fmt.Sprintf("text part %d ", n), fmt.Sprintf("gate switch-%d", n),
			`call exec_command {"cmd":"true"}`}
	}
	script(a, step(1))
	script(a, step(2))
	script(a, []string{"text the end"})
	p.say(thread, "second")
	p.until("item/agentMessage/delta")
	a.Server.Account("a").Exhaust(time.Now().Add(time.Hour))
	a.Models.Release("switch-1")
	began := time.Now()
	t.Logf("%s: from a to b, whose worker was a standby: %s", suite, awaitSwitch(a, "a", "b", 1).Round(time.Millisecond))
	p.until("item/agentMessage/delta")
	a.MustRun(t, "test", "-f", "/var/lib/codex-login/b/auth.json", "-a", "!", "-e", "/var/lib/codex-worker/b/auth.json")
	a.MustRun(t, "systemctl", "kill", "-s", "KILL", "codex-proxy.service")
	a.Server.Account("b").Exhaust(time.Now().Add(time.Hour))
	a.UntilMetric(`codex_account_state{account="a",state="exhausted"} 1`) // it runs again, and knows
	<-time.After(time.Until(began.Add(accounts.RotationPause + time.Second)))
	a.Models.Release("switch-2")
	t.Logf("%s: from b to c, after a kill of the service: %s", suite, awaitSwitch(a, "b", "c", 1).Round(time.Millisecond))
	assert.Equal(t, "completed", p.endOfTurn())
	assertServed(a, map[string][2]int{"a": {2, 1}, "b": {1, 1}, "c": {1, 0}})
	assert.Equal(t, "c", borrows(a, r))
	assert.Equal(t, 2, strings.Count(a.UnitJournal(r.Unit), "another account serves a remote"))
	a.UntilMetric(`codex_account_remotes{account="c"} 1`)
	a.UntilMetric(`codex_remote_switches_total{remote="build"} 2`) // as its main process has told the service
	a.UntilMetric(`codex_remote_attached{remote="build",role="owner"} 1`)
	assert.Equal(t, []string{"first", "second"}, said(a), "no message is lost, or there twice")
	assert.NotContains(t, a.UnitJournal(r.Unit)+a.UnitJournal("codex-proxy.service"), "SECRET")
}

// lacksModel has the account refuse a turn for its model, as a tool may do on purpose.
const lacksModel = "[[failed usage_not_included the plan does not have this model]]"

// fewQuestions is longer than a remote with a turn that waits for quota takes to ask the service for an account twice.
const fewQuestions = 12 * time.Second

// A refusal for one model takes the account from nobody. Without a rotation the end of a quota moves nothing to another
// account, and the thread says so. The turn waits, also
// through a restart of the service, no request is sent to find out, and it goes on when a reading shows quota.
func TestRemoteAccountsOff(t *testing.T) { bed.EitherSuite(t, testRemoteAccountsOff) }

func testRemoteAccountsOff(t *testing.T, suite string) {
	a := bed.NewAccounts(t, suite, fmt.Sprintf(remoteAccountsConfig, "off"), "a", "b", "c")
	r := lentRemote(a, "build")
	a.Start()
	a.UntilWorkersReady()
	p := attach(r)
	thread := p.say("", "first")
	assert.Equal(t, "completed", p.endOfTurn())
	p.say("", lacksModel)
	assert.Equal(t, "failed", p.endOfTurn(), "it waits for no quota")
	a.UntilMetric(`codex_account_state{account="a",state="available"} 1`)
	a.Server.Account("a").Exhaust(time.Now().Add(2 * time.Hour))
	p.say(thread, "second")
	for !strings.Contains(string(p.until("item/completed")), "goes on by itself when an account has quota") {
		continue
	}
	a.MustRun(t, "systemctl", "restart", "codex-proxy.service")
	a.UntilMetric(`codex_account_state{account="a",state="exhausted"} 1`) // as the process before it has saved
	bed.Pause(t.Context(), fewQuestions)
	assertServed(a, map[string][2]int{"a": {2, 1}, "b": {0, 0}, "c": {0, 0}})
	assert.Equal(t, "a", borrows(a, r))
	script(a, []string{"text the end"})
	a.Server.Account("a").Reset()
	a.AwaitRecord(func() bool { accepted, _ := turnsOf(a, "a"); return accepted == 3 })
	assert.Equal(t, "completed", p.endOfTurn())
	assertServed(a, map[string][2]int{"a": {3, 1}, "b": {0, 0}, "c": {0, 0}})
	said := said(a)
	require.Len(t, said, 4, "no message is lost, or there twice: %q", said)
	assert.Equal(t, []string{"first", lacksModel, "second"}, said[:3])
	assert.Contains(t, said[3], "goes on by itself when an account has quota") // codex's record of these words
	journal := a.UnitJournal(r.Unit)
	assert.Equal(t, 1, strings.Count(journal, "a turn waits for quota"))
	assert.Equal(t, 1, strings.Count(journal, "a turn that waited for quota goes on"))
	assert.NotContains(t, journal, "another account serves a remote")
}

func script(a *bed.AccountsBed, steps []string) {
	a.T.Helper()
	require.NoError(a.T, a.Models.Script(steps...))
}

func assertServed(a *bed.AccountsBed, want map[string][2]int) {
	a.T.Helper()
	for account, want := range want {
		accepted, refused := turnsOf(a, account)
		assert.Equal(a.T, want, [2]int{accepted, refused}, "account %s, accepted and refused", account)
	}
}

// endOfTurn is how the next turn ends.
func (p *person) endOfTurn() string {
	p.T.Helper()
	var done struct {
		Turn struct {
			Status string `json:"status"`
		} `json:"turn"`
	}
	require.NoError(p.T, json.Unmarshal(p.until("turn/completed"), &done))
	return done.Turn.Status
}

// borrows is the account that serves a remote.
func borrows(a *bed.AccountsBed, r bed.Remote) string {
	a.T.Helper()
	out := a.MustRun(a.T, "codex-proxy", "remotes", "list", "--json")
	var list struct {
		Remotes []struct {
			Name    string `json:"name"`
			Account string `json:"account"`
		} `json:"remotes"`
	}
	require.NoError(a.T, json.Unmarshal([]byte(out), &list), out)
	for _, l := range list.Remotes {
		if l.Name == r.Name {
			return l.Account
		}
	}
	return "no remote " + r.Name + " in " + out
}

// said are the messages of people that the model got, in order, without repetitions.
func said(a *bed.AccountsBed) (texts []string) {
	for _, account := range a.Server.Accounts() {
		for _, turn := range account.Record().Turns {
			if text := turn.Text; len(texts) == 0 || texts[len(texts)-1] != text {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// seesNoToken looks for the end of each token wherever a tool may read.
func (p *person) seesNoToken() {
	p.T.Helper()
	const script = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep 'SECRE[T]'
grep -rlsI 'SECRE[T]' "$CODEX_HOME" "$HOME" /etc /tmp /run /srv
for s in /run/codex-logins/socket /run/codex-proxy/a.sock; do test ! -e $s || echo $s; done; echo looked`
	assert.Equal(p.T, "looked", p.shell(script))
}

// refusesStrangers asks for a login as root of another machine than the service's.
func refusesStrangers(a *bed.AccountsBed) {
	a.T.Helper()
	path := fmt.Sprintf("/proc/%d/root/run/codex-logins/socket", a.PID())
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(a.T, err)
	defer conn.Close()
	require.NoError(a.T, conn.SetDeadline(time.Now().Add(bed.Bound)))
	answer := make([]byte, 1<<10)
	n, err := conn.Read(answer)
	require.NoError(a.T, err)
	assert.Contains(a.T, string(answer[:n]), `"code":"not_a_remote"`)
	_, _, err = a.Run(a.T.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
		"sh", "-c", "exec 3<>/run/codex-logins/socket")
	assert.Error(a.T, err)
}
