package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/accounts"
)

// remoteAccountsConfig keeps one worker warm: the login of any other account is lent by a standby that starts for it.
const remoteAccountsConfig = "[accounts]\nrotation = %q\norder = [\"a\", \"b\", \"c\"]\n"

// lentRemote is a remote that the accounts serve.
func (a *accountsBed) lentRemote(name string) remote {
	a.t.Helper()
	a.dropIn("codex-remote@.service", "openai", "[Service]\nEnvironment=SSL_CERT_FILE="+authority+"\n")
	r := a.remote(name, "", "")
	r.write(fmt.Sprintf("directory = \"/srv/%s\"\nmodel = %q\ncodex_path = \"%s/bin/codex\"\n", name, "gpt-5.5", codexDir))
	return r
}

// turnsOf is how many turns an account has served, and how many it has refused.
func (a *accountsBed) turnsOf(account string) (accepted, refused int) {
	record := a.server.Account(account).Record()
	return record.Accepted(), record.Refused()
}

// awaitSwitch waits until the account's server has refused a turn, and the next account has got one, and returns the time
// between them.
func (a *accountsBed) awaitSwitch(from, to string, turns int) time.Duration {
	a.t.Helper()
	a.awaitRecord(func() bool {
		accepted, _ := a.turnsOf(to)
		_, refused := a.turnsOf(from)
		return refused == 1 && accepted == turns
	})
	at := func(account string) time.Time {
		all := a.server.Account(account).Record().Turns
		return all[len(all)-1].At
	}
	return at(to).Sub(at(from))
}

// The quota of an account ends in a turn of a remote, and that of the next one: the same turn goes on. Workers on standby
// start for it, tools see no token, and a kill of the service in between changes nothing.
func TestRemoteAccounts(t *testing.T) { bothSuites(t, testRemoteAccounts) }

func testRemoteAccounts(t *testing.T, suite string) {
	a := newAccountsBed(t, suite, fmt.Sprintf(remoteAccountsConfig, "ordered")+"warm = 1\n", "a", "b", "c")
	r := a.lentRemote("build")
	a.start()
	p := r.attach()
	thread := p.say("", "first")
	assert.Equal(t, "completed", p.endOfTurn())
	assert.Equal(t, "a", a.borrows(r))
	a.untilMetric(`codex_account_remotes{account="a"} 1`)
	p.seesNoToken()
	a.refusesStrangers()

	step := func(n int) []string {
		return []string{fmt.Sprintf("text part %d ", n), fmt.Sprintf("gate switch-%d", n),
			`call exec_command {"cmd":"true"}`}
	}
	a.script(step(1))
	a.script(step(2))
	a.script([]string{"text the end"})
	p.say(thread, "second")
	p.until("item/agentMessage/delta")
	a.server.Account("a").Exhaust(time.Now().Add(time.Hour))
	a.models.Release("switch-1")
	began := time.Now()
	t.Logf("%s: from a to b, whose worker was a standby: %s", suite, a.awaitSwitch("a", "b", 1).Round(time.Millisecond))
	p.until("item/agentMessage/delta")
	a.MustRun(t, "systemctl", "kill", "-s", "KILL", "codex-proxy.service")
	a.server.Account("b").Exhaust(time.Now().Add(time.Hour))
	a.untilMetric(`codex_account_state{account="a",state="exhausted"} 1`) // it runs again, and knows
	<-time.After(time.Until(began.Add(accounts.RotationPause + time.Second)))
	a.models.Release("switch-2")
	t.Logf("%s: from b to c, after a kill of the service: %s", suite, a.awaitSwitch("b", "c", 1).Round(time.Millisecond))
	assert.Equal(t, "completed", p.endOfTurn())
	a.assertServed(map[string][2]int{"a": {2, 1}, "b": {1, 1}, "c": {1, 0}})
	assert.Equal(t, "c", a.borrows(r))
	assert.Equal(t, 2, strings.Count(a.journal(r.unit), "another account serves a remote"))
	a.untilMetric(`codex_account_remotes{account="c"} 1`)
	a.untilMetric(`codex_remote_switches_total{remote="build"} 2`) // as its main process has told the service
	a.untilMetric(`codex_remote_attached{remote="build",role="owner"} 1`)
	assert.Equal(t, []string{"first", "second"}, a.said(), "no message is lost, or there twice")
	assert.NotContains(t, a.journal(r.unit)+a.journal("codex-proxy.service"), "SECRET")
}

// lacksModel has the account refuse a turn for its model, as a tool may do on purpose.
const lacksModel = "[[failed usage_not_included the plan does not have this model]]"

// fewQuestions is longer than a remote with a turn that waits for quota takes to ask the service for an account twice.
const fewQuestions = 12 * time.Second

// A refusal for one model takes the account from nobody. Without a rotation the end of a quota moves nothing to another
// account, and the thread says so. The turn waits, also
// through a restart of the service, no request is sent to find out, and it goes on when a reading shows quota.
func TestRemoteAccountsOff(t *testing.T) { bothSuites(t, testRemoteAccountsOff) }

func testRemoteAccountsOff(t *testing.T, suite string) {
	a := newAccountsBed(t, suite, fmt.Sprintf(remoteAccountsConfig, "off"), "a", "b", "c")
	r := a.lentRemote("build")
	a.start()
	a.untilWorkersReady()
	p := r.attach()
	thread := p.say("", "first")
	assert.Equal(t, "completed", p.endOfTurn())
	p.say("", lacksModel)
	assert.Equal(t, "failed", p.endOfTurn(), "it waits for no quota")
	a.untilMetric(`codex_account_state{account="a",state="available"} 1`)
	a.server.Account("a").Exhaust(time.Now().Add(2 * time.Hour))
	p.say(thread, "second")
	for !strings.Contains(string(p.until("item/completed")), "goes on by itself when an account has quota") {
		continue
	}
	a.MustRun(t, "systemctl", "restart", "codex-proxy.service")
	a.untilMetric(`codex_account_state{account="a",state="exhausted"} 1`) // as the process before it has saved
	pause(t.Context(), fewQuestions)
	a.assertServed(map[string][2]int{"a": {2, 1}, "b": {0, 0}, "c": {0, 0}})
	assert.Equal(t, "a", a.borrows(r))
	a.script([]string{"text the end"})
	a.server.Account("a").Reset()
	a.awaitRecord(func() bool { accepted, _ := a.turnsOf("a"); return accepted == 3 })
	assert.Equal(t, "completed", p.endOfTurn())
	a.assertServed(map[string][2]int{"a": {3, 1}, "b": {0, 0}, "c": {0, 0}})
	said := a.said()
	require.Len(t, said, 4, "no message is lost, or there twice: %q", said)
	assert.Equal(t, []string{"first", lacksModel, "second"}, said[:3])
	assert.Contains(t, said[3], "goes on by itself when an account has quota") // codex's record of these words
	journal := a.journal(r.unit)
	assert.Equal(t, 1, strings.Count(journal, "a turn waits for quota"))
	assert.Equal(t, 1, strings.Count(journal, "a turn that waited for quota goes on"))
	assert.NotContains(t, journal, "another account serves a remote")
}

func (a *accountsBed) script(steps []string) {
	a.t.Helper()
	require.NoError(a.t, a.models.Script(steps...))
}

func (a *accountsBed) assertServed(want map[string][2]int) {
	a.t.Helper()
	for account, want := range want {
		accepted, refused := a.turnsOf(account)
		assert.Equal(a.t, want, [2]int{accepted, refused}, "account %s, accepted and refused", account)
	}
}

// endOfTurn is how the next turn ends.
func (p *person) endOfTurn() string {
	p.t.Helper()
	var done struct {
		Turn struct {
			Status string `json:"status"`
		} `json:"turn"`
	}
	require.NoError(p.t, json.Unmarshal(p.until("turn/completed"), &done))
	return done.Turn.Status
}

// borrows is the account that serves a remote.
func (a *accountsBed) borrows(r remote) string {
	a.t.Helper()
	out := a.MustRun(a.t, "codex-proxy", "remotes", "list", "--json")
	var list struct {
		Remotes []struct {
			Name    string `json:"name"`
			Account string `json:"account"`
		} `json:"remotes"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(out), &list), out)
	for _, l := range list.Remotes {
		if l.Name == r.name {
			return l.Account
		}
	}
	return "no remote " + r.name + " in " + out
}

// said are the messages of people that the model got, in order, without repetitions.
func (a *accountsBed) said() (texts []string) {
	for _, account := range a.server.Accounts() {
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
	p.t.Helper()
	const script = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep 'SECRE[T]'
grep -rlsI 'SECRE[T]' "$CODEX_HOME" "$HOME" /etc /tmp /run /srv
for s in /run/codex-logins/socket /run/codex-proxy/a.sock; do test ! -e $s || echo $s; done; echo looked`
	assert.Equal(p.t, "looked", p.shell(script))
}

// refusesStrangers asks for a login as root of another machine than the service's.
func (a *accountsBed) refusesStrangers() {
	a.t.Helper()
	path := fmt.Sprintf("/proc/%d/root/run/codex-logins/socket", a.PID())
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(a.t, err)
	defer conn.Close()
	require.NoError(a.t, conn.SetDeadline(time.Now().Add(bound)))
	answer := make([]byte, 1<<10)
	n, err := conn.Read(answer)
	require.NoError(a.t, err)
	assert.Contains(a.t, string(answer[:n]), `"code":"not_a_remote"`)
	_, _, err = a.Run(a.t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
		"sh", "-c", "exec 3<>/run/codex-logins/socket")
	assert.Error(a.t, err)
}
