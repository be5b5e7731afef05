package accounts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// TestAccountsCommands is the control of accounts from the command line and by requests: which account serves is what
// the stand-in of the accounts' server has counted.
func TestAccountsCommands(t *testing.T) {
	t.Parallel()
	b := bed.NewAccounts(t, bed.Newest, "[accounts]\nrotation = \"ordered\"\n", "a", "b", "c=b")
	b.Server.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Used = 42 })
	b.Start()
	b.UntilWorkersReady()
	untilRow(b, "a", `^available; in use 5h \[#+-+\] 42 % used, resets in .* known by a reading, .* login ChatGPT`)
	untilRow(b, "b", `^available; next .* same c .* plan `)
	untilRow(b, "c", `same b `)

	servesNow(b, "a")
	switches(b)
	pauses(b)
	limitsKeys(b)
	watches(b)
	survives(b)

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
	b.AwaitInactive(bed.ProxyUnit) // the command does not wait for what the target wants
	b.AwaitInactive(unitOf("b"))
	assert.Regexp(t, `^available; paused .* known by a .* unit inactive `, bed.AccountRow(b.Bed, "b"), "what the service saved")
}

// untilRow waits until the list has that of a worker.
func untilRow(a *bed.AccountsBed, worker, pattern string) {
	a.T.Helper()
	var row string
	await.True(a.T, func() bool {
		row = bed.AccountRow(a.Bed, worker)
		return regexp.MustCompile(pattern).MatchString(row)
	}, bed.Bound, "%s is not %s", worker, pattern)
	a.T.Logf("%s: %s", worker, row)
}

// servesNow asserts that a turn without a choice runs on an account. It is a conversation of its own: one that has
// just followed a switch stays where it is for a minute.
func servesNow(a *bed.AccountsBed, account string) {
	a.T.Helper()
	before := len(a.Server.Account(account).Record().Turns)
	status, _, body := chooses(a, "", "")
	require.Equal(a.T, http.StatusOK, status, body)
	assert.Len(a.T, a.Server.Account(account).Record().Turns, before+1, "it runs on %s", account)
}

func order(a *bed.AccountsBed, words ...string) string {
	a.T.Helper()
	out, stderr, err := a.Run(a.T.Context(), append([]string{"codex-proxy", "accounts"}, words...)...)
	require.NoError(a.T, err, stderr)
	return out + stderr
}

func refused(a *bed.AccountsBed, words ...string) string {
	a.T.Helper()
	_, stderr, err := a.Run(a.T.Context(), append([]string{"codex-proxy"}, words...)...)
	require.Error(a.T, err)
	return stderr
}

func switches(a *bed.AccountsBed) {
	a.T.Helper()
	assert.Contains(a.T, order(a, "switch", "b"), "The account b is in use")
	untilRow(a, "b", "^available; in use ")
	servesNow(a, "b")
	assert.Contains(a.T, refused(a, "accounts", "switch", "x"), `no such account: "x"; there are a, b, c`)
	order(a, "switch", "a")
	servesNow(a, "a")
}

// pauses pauses an account in mid-turn: the turn goes on, and the next one runs elsewhere.
func pauses(a *bed.AccountsBed) {
	a.T.Helper()
	require.NoError(a.T, a.Models.Script("text one", "gate pause", "text two"))
	answered := make(chan string, 1)
	go func() {
		_, body, _ := bed.TryOpenAI(a.Bed)
		answered <- body
	}()
	_, err := a.Models.Wait(a.T.Context(), func(turns []modelserver.Request) bool {
		return len(turns) > 0 && turns[len(turns)-1].Gate != ""
	})
	require.NoError(a.T, err)
	assert.Contains(a.T, order(a, "pause", "a"), "The account a gets no new turns until codex-proxy accounts resume a.")
	servesNow(a, "b")
	a.Models.Release("pause")
	assert.Contains(a.T, <-answered, "onetwo")
	assert.Contains(a.T, refused(a, "accounts", "switch", "a"), "it is paused; codex-proxy accounts resume a first")
	a.MustRun(a.T, "systemctl", "reload", "codex-proxy")
	untilRow(a, "a", "^available; paused ")
	servesNow(a, "b")
	a.MustRun(a.T, "systemctl", "restart", "codex-proxy")
	a.UntilWorkersReady()
	untilRow(a, "a", "^available; paused ")
	servesNow(a, "b")
	status, _, body := chooses(a, "", "a")
	assert.Equal(a.T, http.StatusServiceUnavailable, status, body)
	assert.Contains(a.T, body, "paused")
	order(a, "resume", "a")
	order(a, "switch", "a")
	servesNow(a, "a")
}

// chooses sends a request of a new conversation, with a key and an account unless they are empty.
func chooses(a *bed.AccountsBed, key, account string) (status int, header http.Header, body string) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(a.T.Context(), bed.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+bed.OpenAIModel+`","messages":[{"role":"user","content":"`+rand.Text()+`"}]}`))
	require.NoError(a.T, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if account != "" {
		req.Header.Set("X-Codex-Account", account)
	}
	res, err := a.HTTP.Do(req)
	require.NoError(a.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(a.T, err)
	return res.StatusCode, res.Header, string(text)
}

func limitsKeys(a *bed.AccountsBed) {
	a.T.Helper()
	status, header, body := chooses(a, "", "c")
	require.Equal(a.T, http.StatusOK, status, body)
	assert.Equal(a.T, "c", header.Get("X-Codex-Account"))
	alice := bed.Trim(a.MustRun(a.T, "codex-proxy", "keys", "add", "alice", "--accounts=b", "--choose-account"))
	for range 2 {
		status, header, body = chooses(a, alice, "")
		require.Equal(a.T, http.StatusOK, status, body)
		assert.Equal(a.T, "b", header.Get("X-Codex-Account"))
	}
	status, _, body = chooses(a, alice, "a")
	assert.Equal(a.T, http.StatusBadRequest, status)
	assert.Contains(a.T, body, "use one of b")
	assert.Contains(a.T, refused(a, "keys", "set", "alice", "--accounts=aa"), `there is no account "aa"; did you mean a?`)
	a.MustRun(a.T, "codex-proxy", "keys", "set", "alice", "--choose-account=no", "--accounts=a")
	status, header, body = chooses(a, alice, "")
	require.Equal(a.T, http.StatusOK, status, body)
	assert.Empty(a.T, header.Get("X-Codex-Account"))
	status, _, _ = chooses(a, alice, "a")
	assert.Equal(a.T, http.StatusForbidden, status)
	a.MustRun(a.T, "codex-proxy", "keys", "revoke", "alice")
	a.MustRun(a.T, "codex-proxy", "keys", "open")
}

// watches sees a pause of another command.
func watches(a *bed.AccountsBed) {
	a.T.Helper()
	seen := &bed.Watched{Want: regexp.MustCompile(`(?s)\nb  available; next.*\nb  available; paused`), Came: make(chan struct{})}
	ctx, cancel := context.WithTimeout(a.T.Context(), 2*bed.Bound)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- a.Exec(ctx, machine.Exec{Args: []string{"codex-proxy", "accounts", "list", "--watch"}, Stdout: seen, Stderr: seen})
	}()
	await.True(a.T, func() bool { return strings.Contains(seen.String(), "b  available; next") }, bed.Bound)
	order(a, "pause", "b")
	select {
	case <-seen.Came:
	case err := <-ended:
		require.Fail(a.T, "the watch ended", "%v: %s", err, seen)
	case <-ctx.Done():
		require.Fail(a.T, "the pause was not shown", seen.String())
	}
	cancel()
	assert.Error(a.T, <-ended, "it goes on until it is ended")
	assert.NotContains(a.T, seen.String(), "\x1b", "no colours without a terminal")
}

// survives kills the daemon: the pause holds.
func survives(a *bed.AccountsBed) {
	a.T.Helper()
	a.MustRun(a.T, "systemctl", "kill", "--signal=KILL", "--kill-who=main", "codex-proxy")
	a.UntilWorkersReady()
	untilRow(a, "b", "^available; paused ")
}
