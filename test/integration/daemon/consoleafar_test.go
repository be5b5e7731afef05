package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/operators"
	"codex-proxy/remotes/transcript"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

const afarURL = "http://127.0.0.1:8791"

// enter opens the page for other machines with a key.
func enter(b *bed.Bed, key string) *page {
	b.T.Helper()
	p := &page{Bed: b, url: afarURL}
	status, answer := p.post("/api/session", map[string]any{"token": key})
	require.Equal(b.T, http.StatusOK, status, answer)
	p.session = answer["session"].(string)
	return p
}

// A person on another machine follows the service and a remote, sends, approves and drains, as far as the key's right
// goes. Two units without rights serve the page, which is off until its socket is enabled.
func TestConsoleFromAfar(t *testing.T) { bed.BothSuites(t, testConsoleFromAfar) }

func testConsoleFromAfar(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	bed.NewRemote(b, "build", "", "")
	bed.NewRemote(b, "other", "", "")
	add := func(name string, options ...string) string {
		return bed.Trim(b.MustRun(t, append([]string{"codex-proxy", "keys", "add", name}, options...)...))
	}
	phone, alice, api := add("phone", "--console=operate", "--remotes=build"),
		add("alice", "--console=read", "--remotes=build"), add("api")
	assert.Equal(t, "disabled", bed.Trim(b.MustRun(t, "sh", "-c", "systemctl is-enabled codex-console.socket || true")))
	_, _, err := b.Run(t.Context(), "curl", "-s", "--max-time", "5", afarURL)
	require.Error(t, err, "nothing listens before")
	b.MustRun(t, "systemctl", "enable", "--now", "codex-console.socket")
	bed.DoctorFinds(b, "console", "names no origins")
	was, err := b.ReadFile(bed.ConfigFile)
	require.NoError(t, err)
	require.NoError(t, b.WriteFile(bed.ConfigFile, append(was, []byte("\n[console]\norigins = [\"https://codex.example.com\", \""+afarURL+"\"]\n")...), 0o644))

	p := enter(b, phone)
	res := p.do(http.MethodGet, "/api/watch", nil)
	defer res.Body.Close()
	stream := json.NewDecoder(res.Body)
	until(t, stream, "everything", func(e operators.Event) bool { return e.Whole && e.Status.OK && e.Accounts != nil && e.Keys.Count == 3 })
	status, answer := p.order("drain", map[string]string{"worker": "default"})
	require.Equal(t, http.StatusOK, status, answer)
	until(t, stream, "drained", func(e operators.Event) bool { return e.Status != nil && e.Status.Workers[0].Drained })
	status, answer = p.order("undrain", map[string]string{"worker": "default"})
	require.Equal(t, http.StatusOK, status, answer)
	status, answer = p.order("usage", map[string]string{"since": "7d", "by": "hour,key"})
	require.Equal(t, http.StatusOK, status, answer)

	question, thread := fromAfar(b, p)
	afarRefusals(b, p, enter(b, alice), api, thread, question)

	for _, unit := range []string{"codex-console.service", "codex-console-orders.service"} {
		own := b.MustRun(t, "sh", "-ec", "cat /proc/$(systemctl show -P MainPID "+unit+")/status")
		assert.Contains(t, own, "CapEff:\t0000000000000000\n", unit)
		assert.Contains(t, own, "NoNewPrivs:\t1\n", unit)
		assert.NotContains(t, own, "Uid:\t0\t", unit)
		network := "nsenter --net=/proc/$(systemctl show -P MainPID " + unit + ")/ns/net ls /sys/class/net || true"
		assert.NotContains(t, b.MustRun(t, "sh", "-c", network), "eth", unit)
		t.Logf("%s: %s", unit, strings.Fields(own[strings.Index(own, "VmRSS:"):])[1]+" kB")
	}
	journal := b.MustRun(t, "journalctl", "--no-pager", "-o", "export")
	for _, secret := range []string{phone, alice, p.session, "a-wish", "MAY-I"} {
		assert.NotContains(t, journal, secret)
	}
	assert.Contains(t, journal, "a session of the console has begun")

	b.MustRun(t, "systemctl", "restart", "codex-proxy", "codex-console-orders")
	status, _ = p.order("usage", map[string]string{"since": "7d", "by": "hour,key"})
	assert.Equal(t, http.StatusOK, status, "a session outlives the units")
	b.MustRun(t, "codex-proxy", "keys", "revoke", "phone")
	status, answer = p.order("usage", map[string]string{"since": "7d", "by": "hour,key"})
	assert.Equal(t, http.StatusUnauthorized, status, answer)
	b.MustRun(t, "systemctl", "disable", "--now", "codex-console.socket")
	_, _, err = b.Run(t.Context(), "curl", "-s", "--max-time", "5", afarURL)
	require.Error(t, err, "nothing listens any more")
}

// fromAfar has a person work with the remote, and leaves a question open.
func fromAfar(b *bed.Bed, p *page) (question, thread string) {
	t := b.T
	answer := func(word string, steps ...string) {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: word, Times: 1, Steps: steps}))
	}
	send := func(text string) {
		status, got := p.order("send", map[string]string{"remote": "build", "text": text})
		require.Equal(t, http.StatusOK, status, got)
		thread = got["thread"].(string)
	}
	answer("hello", "text hello there")
	send("hello")
	stream := p.follow("build")
	untilThread(t, stream, "the answer", func(u transcript.Update) bool { return said(u, "agent", "hello there") })
	for _, file := range []string{"made", "later"} {
		answer("a-wish", `call exec_command {"cmd":"touch /srv/build/`+file+`","sandbox_permissions":"require_escalated","justification":"MAY-I"}`)
		send("a-wish")
		u := untilThread(t, stream, "the question", func(u transcript.Update) bool { return len(u.Questions) > 0 })
		if question = u.Questions[0].ID; file == "later" {
			break
		}
		answer("a-wish", "text it has run")
		status, got := p.order("approve", map[string]string{"remote": "build", "thread": thread, "question": question, "decision": "accept"})
		require.Equal(t, http.StatusOK, status, got)
		spoke := false // an update has the new items alone
		untilThread(t, stream, "it goes on", func(u transcript.Update) bool {
			spoke = spoke || said(u, "agent", "it has run")
			return spoke && u.Turn == ""
		})
		b.MustRun(t, "test", "-e", "/srv/build/made")
	}
	return question, thread
}

// afarRefusals are the attacks of people with a lesser key, and of users of the machine.
func afarRefusals(b *bed.Bed, p, looks *page, api, thread, question string) {
	t := b.T
	approval := map[string]string{"remote": "build", "thread": thread, "question": question, "decision": "accept"}
	u := untilThread(t, looks.follow("build"), "a reader sees the thread", func(u transcript.Update) bool { return said(u, "agent", "it has run") })
	assert.Empty(t, u.Questions, "and no question")
	for name, a := range map[string]struct {
		by    *page
		verb  string
		words map[string]string
		want  string
	}{
		"a reader approves":        {looks, "approve", approval, "--console=operate"},
		"a reader sends":           {looks, "send", map[string]string{"remote": "build", "text": "x"}, "--console=operate"},
		"a reader interrupts":      {looks, "interrupt", map[string]string{"remote": "build", "thread": thread}, "--console=operate"},
		"a reader drains":          {looks, "drain", map[string]string{"worker": "default"}, "--console=operate"},
		"a remote of others":       {p, "send", map[string]string{"remote": "other", "text": "x"}, "may not attach"},
		"a new key":                {p, "add", map[string]string{"key": "mallory"}, "no order"},
		"a key revoked":            {p, "revoke", map[string]string{"key": "alice"}, "no order"},
		"the checks of root":       {p, "doctor", nil, "no order"},
		"a path as a remote":       {p, "send", map[string]string{"remote": "../build", "text": "x"}, "must match"},
		"options of another order": {p, "drain", map[string]string{"worker": "default", "all": "yes"}, "takes no"},
	} {
		status, got := a.by.order(a.verb, a.words)
		assert.Equal(t, http.StatusUnprocessableEntity, status, name)
		assert.Contains(t, got["error"], a.want, name)
	}
	status, got := (&page{Bed: b, url: afarURL}).post("/api/session", map[string]any{"token": api})
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, got["error"], "--console=read")
	for range 10 {
		status, _ = (&page{Bed: b, url: afarURL}).post("/api/session", map[string]any{"token": "sk-codex-guess"})
		assert.Equal(t, http.StatusForbidden, status)
	}
	_, got = (&page{Bed: b, url: afarURL}).post("/api/session", map[string]any{"token": "sk-codex-guess"})
	assert.Contains(t, got["error"], "try again in a minute")

	const orders = "/run/codex-proxy/console.socket"
	assert.Equal(t, "root:codex-console 660\n", b.MustRun(t, "stat", "-c", "%U:%G %a", orders))
	assert.Equal(t, "codex-proxy:codex-proxy 600\n", b.MustRun(t, "stat", "-c", "%U:%G %a", "/var/lib/codex-console/secret"))
	as := func(user, group, command string) (string, error) {
		out, stderr, err := b.Run(t.Context(), "setpriv", "--reuid="+user, "--regid="+group, "--clear-groups", "sh", "-c", command)
		return out + stderr, err
	}
	for name, a := range map[string][3]string{
		"another user at the orders":         {"nobody", "nogroup", "curl -sS --unix-socket " + orders + " http://x/"},
		"another user at the secret":         {"nobody", "nogroup", "cat /var/lib/codex-console/secret"},
		"the server at the control socket":   {"codex-console", "codex-console", "curl -sS --unix-socket /run/codex-proxy/control/socket http://x/v1/status"},
		"the server at a worker":             {"codex-console", "codex-console", "curl -sS --unix-socket /run/codex-proxy/default.sock http://x/"},
		"the server at a remote":             {"codex-console", "codex-console", "curl -sS --unix-socket /run/codex-remote/build.network.sock http://x/"},
		"the server at the secret":           {"codex-console", "codex-console", "cat /var/lib/codex-console/secret"},
		"the server at the keys":             {"codex-console", "codex-console", "cat /etc/codex-proxy/api-keys /etc/codex-proxy/config.toml"},
		"the orders' user at the key file":   {"codex-proxy", "codex-proxy", "cat /etc/codex-proxy/api-keys"},
		"the orders' user writes the config": {"codex-proxy", "codex-proxy", "echo >>/etc/codex-proxy/config.toml"},
	} {
		out, err := as(a[0], a[1], a[2])
		assert.Error(t, err, "%s: %s", name, out)
	}
	for name, header := range map[string]string{
		"a name that resolves here": "Host: evil.example", "the port of another": "Host: 127.0.0.1:8787",
		"another origin": "Origin: https://evil.example", "another site": "Sec-Fetch-Site: cross-site",
	} {
		out := b.MustRun(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", header, "-H", "Authorization: Bearer "+p.session, afarURL+"/api/watch")
		assert.Contains(t, []string{"421", "403"}, out, name)
	}
}
