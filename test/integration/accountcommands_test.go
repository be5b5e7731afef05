package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// TestAccountsCommands is the control of accounts from the command line and by requests: which account serves is what
// the stand-in of the accounts' server has counted.
func TestAccountsCommands(t *testing.T) {
	t.Parallel()
	b := newAccountsBed(t, newest, "[accounts]\nrotation = \"ordered\"\n", "a", "b", "c=b")
	b.server.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Used = 42 })
	b.start()
	b.untilWorkersReady()
	b.untilRow("a", `^available; in use 5h \[#+-+\] 42 % used, resets in .* known by a reading, .* login ChatGPT`)
	b.untilRow("b", `^available; next .* same c .* plan `)
	b.untilRow("c", `same b `)

	b.servesNow("a")
	b.switches()
	b.pauses()
	b.limitsKeys()
	b.watches()
	b.survives()

	out := b.MustRun(t, "codex-proxy", "usage", "--by=account", "--json")
	var used struct {
		Usage []struct {
			Account  string
			Requests int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &used))
	for _, u := range used.Usage {
		assert.Contains(t, []string{"a", "b", "c"}, u.Account, "each request has an account")
		assert.Positive(t, u.Requests)
	}
	assert.GreaterOrEqual(t, len(used.Usage), 2)

	b.MustRun(t, "systemctl", "stop", "codex.target")
	b.awaitInactive(proxyUnit) // the command does not wait for what the target wants
	b.awaitInactive(unitOf("b"))
	assert.Regexp(t, `^available; paused .* known by a .* unit inactive `, b.row("b"), "what the service saved")
}

// untilRow waits until the list has that of a worker.
func (a *accountsBed) untilRow(worker, pattern string) {
	a.t.Helper()
	var row string
	require.Eventually(a.t, func() bool {
		row = a.row(worker)
		return regexp.MustCompile(pattern).MatchString(row)
	}, bound, 200*time.Millisecond, "%s is not %s", worker, pattern)
	a.t.Logf("%s: %s", worker, row)
}

// servesNow asserts that a turn without a choice runs on an account. It is a conversation of its own: one that has
// just followed a switch stays where it is for a minute.
func (a *accountsBed) servesNow(account string) {
	a.t.Helper()
	before := len(a.server.Account(account).Record().Turns)
	status, _, body := a.chooses("", "")
	require.Equal(a.t, http.StatusOK, status, body)
	assert.Len(a.t, a.server.Account(account).Record().Turns, before+1, "it runs on %s", account)
}

func (a *accountsBed) order(words ...string) string {
	a.t.Helper()
	out, stderr, err := a.Run(a.t.Context(), append([]string{"codex-proxy", "accounts"}, words...)...)
	require.NoError(a.t, err, stderr)
	return out + stderr
}

func (a *accountsBed) refused(words ...string) string {
	a.t.Helper()
	_, stderr, err := a.Run(a.t.Context(), append([]string{"codex-proxy"}, words...)...)
	require.Error(a.t, err)
	return stderr
}

func (a *accountsBed) switches() {
	a.t.Helper()
	assert.Contains(a.t, a.order("switch", "b"), "The account b is in use")
	a.untilRow("b", "^available; in use ")
	a.servesNow("b")
	assert.Contains(a.t, a.refused("accounts", "switch", "x"), `no such account: "x"; there are a, b, c`)
	a.order("switch", "a")
	a.servesNow("a")
}

// pauses pauses an account in mid-turn: the turn goes on, and the next one runs elsewhere.
func (a *accountsBed) pauses() {
	a.t.Helper()
	require.NoError(a.t, a.models.Script("text one", "gate pause", "text two"))
	answered := make(chan string, 1)
	go func() {
		_, body, _ := a.tryOpenAI()
		answered <- body
	}()
	_, err := a.models.Wait(a.t.Context(), func(turns []modelserver.Request) bool {
		return len(turns) > 0 && turns[len(turns)-1].Gate != ""
	})
	require.NoError(a.t, err)
	assert.Contains(a.t, a.order("pause", "a"), "The account a gets no new turns until codex-proxy accounts resume a.")
	a.servesNow("b")
	a.models.Release("pause")
	assert.Contains(a.t, <-answered, "onetwo")
	assert.Contains(a.t, a.refused("accounts", "switch", "a"), "it is paused; codex-proxy accounts resume a first")
	a.MustRun(a.t, "systemctl", "reload", "codex-proxy")
	a.untilRow("a", "^available; paused ")
	a.servesNow("b")
	a.MustRun(a.t, "systemctl", "restart", "codex-proxy")
	a.untilWorkersReady()
	a.untilRow("a", "^available; paused ")
	a.servesNow("b")
	status, _, body := a.chooses("", "a")
	assert.Equal(a.t, http.StatusServiceUnavailable, status, body)
	assert.Contains(a.t, body, "paused")
	a.order("resume", "a")
	a.order("switch", "a")
	a.servesNow("a")
}

// chooses sends a request of a new conversation, with a key and an account unless they are empty.
func (a *accountsBed) chooses(key, account string) (status int, header http.Header, body string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+openAIModel+`","messages":[{"role":"user","content":"`+rand.Text()+`"}]}`))
	require.NoError(a.t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if account != "" {
		req.Header.Set("X-Codex-Account", account)
	}
	res, err := a.http.Do(req)
	require.NoError(a.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(a.t, err)
	return res.StatusCode, res.Header, string(text)
}

func (a *accountsBed) limitsKeys() {
	a.t.Helper()
	status, header, body := a.chooses("", "c")
	require.Equal(a.t, http.StatusOK, status, body)
	assert.Equal(a.t, "c", header.Get("X-Codex-Account"))
	alice := trim(a.MustRun(a.t, "codex-proxy", "keys", "add", "alice", "--accounts=b", "--choose-account"))
	for range 2 {
		status, header, body = a.chooses(alice, "")
		require.Equal(a.t, http.StatusOK, status, body)
		assert.Equal(a.t, "b", header.Get("X-Codex-Account"))
	}
	status, _, body = a.chooses(alice, "a")
	assert.Equal(a.t, http.StatusBadRequest, status)
	assert.Contains(a.t, body, "use one of b")
	assert.Contains(a.t, a.refused("keys", "set", "alice", "--accounts=aa"), `there is no account "aa"; did you mean a?`)
	a.MustRun(a.t, "codex-proxy", "keys", "set", "alice", "--choose-account=no", "--accounts=a")
	status, header, body = a.chooses(alice, "")
	require.Equal(a.t, http.StatusOK, status, body)
	assert.Empty(a.t, header.Get("X-Codex-Account"))
	status, _, _ = a.chooses(alice, "a")
	assert.Equal(a.t, http.StatusForbidden, status)
	a.MustRun(a.t, "codex-proxy", "keys", "revoke", "alice")
	a.MustRun(a.t, "codex-proxy", "keys", "open")
}

// watches sees a pause of another command.
func (a *accountsBed) watches() {
	a.t.Helper()
	seen := &watched{want: regexp.MustCompile(`(?s)\nb  available; next.*\nb  available; paused`), came: make(chan struct{})}
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*bound)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- a.Exec(ctx, machine.Exec{Args: []string{"codex-proxy", "accounts", "list", "--watch"}, Stdout: seen, Stderr: seen})
	}()
	require.Eventually(a.t, func() bool { return strings.Contains(seen.String(), "b  available; next") }, bound,
		50*time.Millisecond)
	a.order("pause", "b")
	select {
	case <-seen.came:
	case err := <-ended:
		require.Fail(a.t, "the watch ended", "%v: %s", err, seen)
	case <-ctx.Done():
		require.Fail(a.t, "the pause was not shown", seen.String())
	}
	cancel()
	assert.Error(a.t, <-ended, "it goes on until it is ended")
	assert.NotContains(a.t, seen.String(), "\x1b", "no colours without a terminal")
}

// survives kills the daemon: the pause holds.
func (a *accountsBed) survives() {
	a.t.Helper()
	a.MustRun(a.t, "systemctl", "kill", "--signal=KILL", "--kill-who=main", "codex-proxy")
	a.untilWorkersReady()
	a.untilRow("b", "^available; paused ")
}
