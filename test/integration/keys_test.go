package integration

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A key works as soon as it is shown, and for no request after its end: not in the
// process of before a reload, nor after the next reload, restart or crash.
func TestKeys(t *testing.T) {
	bothSuites(t, func(t *testing.T, suite string) {
		b := newBed(t, suite, realWorker, "")
		b.start()
		stream := b.hold("keys") // keeps the first process until its end
		alice := b.addKey("alice")
		assert.Equal(t, http.StatusOK, b.askWith(nil, alice, nil))
		assert.Equal(t, http.StatusUnauthorized, b.askWith(nil, "", nil))
		old := &http.Client{Transport: &http.Transport{DialContext: b.DialContext}} // on a connection of its own
		defer old.CloseIdleConnections()
		require.Equal(t, http.StatusOK, b.askWith(old, alice, nil))

		assert.Empty(t, b.MustRun(t, "cat", "/run/credentials/"+proxyUnit+"/api-keys"),
			"systemd takes the file when the service starts, and 252 after a reload")
		b.MustRun(t, "systemctl", "reload", proxyUnit)
		require.Equal(t, http.StatusOK, b.askWith(nil, alice, nil), "the successor has the keys of today")
		assert.Equal(t, http.StatusUnauthorized, b.askWith(nil, "", nil))
		bob := b.addKey("bob")
		b.keys("revoke", "alice")
		var closed bool
		assert.Equal(t, http.StatusUnauthorized, b.askWith(old, alice, &closed), "the first process refuses the key, too")
		assert.True(t, closed, "it was the first process that answered")

		still := func(after string) {
			assert.Equal(t, http.StatusOK, b.askWith(nil, bob, nil), after)
			assert.Equal(t, http.StatusUnauthorized, b.askWith(nil, alice, nil), after)
		}
		still("the change")
		b.MustRun(t, "systemctl", "reload", proxyUnit)
		still("a reload")
		stream.finish(b)
		b.awaitSole()
		b.signal(b.onlyProcess(proxyUnit), unix.SIGKILL)
		b.until("ready", ready)
		still("a crash")
		b.MustRun(t, "systemctl", "restart", proxyUnit)
		still("a restart")
		assert.NotContains(t, b.journal(proxyUnit), "cannot take over the API keys")

		b.ignoresUnknown(bob)
		b.pagesNeedAKey("bob")
		b.withoutAKey("bob")
		b.addKey("bob")
		b.MustRun(t, "systemctl", "stop", proxyUnit)
		_, stderr, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "carol")
		require.NoError(t, err)
		assert.Contains(t, stderr, "does not run")
		assert.Equal(t, []string{"NAME", "bob", "carol"}, firstWords(b.keys("list")))
	})
}

// ignoresUnknown asserts that unknown parameters are refused, or ignored for the key and by the settings.
func (b *bed) ignoresUnknown(bob string) {
	b.t.Helper()
	ask := func() (int, string) {
		b.t.Helper()
		body := `{"model":"` + model + `","top_k":40,"messages":[{"role":"user","content":"hi"}]}`
		req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, base+chatPath, strings.NewReader(body))
		require.NoError(b.t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("api-key", bob)
		req.Close = true
		res, err := (&http.Client{Transport: &http.Transport{DialContext: b.DialContext}}).Do(req)
		require.NoError(b.t, err)
		defer res.Body.Close()
		return res.StatusCode, res.Header.Get("X-Codex-Ignored-Params")
	}
	is := func(status int, ignored string) {
		b.t.Helper()
		gotStatus, gotIgnored := ask()
		assert.Equal(b.t, status, gotStatus)
		assert.Equal(b.t, ignored, gotIgnored)
	}
	is(http.StatusBadRequest, "")
	b.keys("set", "bob", "--unknown-parameters=ignore")
	is(http.StatusOK, "top_k")
	was, err := b.ReadFile(configFile)
	require.NoError(b.t, err)
	require.NoError(b.t, b.WriteFile(configFile, append([]byte("unknown_parameters = \"ignore\"\n"), was...), 0o644))
	b.keys("set", "bob", "--unknown-parameters=none")
	is(http.StatusBadRequest, "")
	b.MustRun(b.t, "systemctl", "reload", proxyUnit)
	is(http.StatusOK, "top_k")
	require.NoError(b.t, b.WriteFile(configFile, was, 0o644))
	b.MustRun(b.t, "systemctl", "reload", proxyUnit)
}

// pagesNeedAKey asserts that the last key stays while web pages may use the API, and that
// pages may not use it while there is none.
func (b *bed) pagesNeedAKey(last string) {
	b.t.Helper()
	const none = configFile + ":1: cors_origins: lets web pages use the API with a key of their own, and there is no key; codex-proxy keys add NAME"
	was, err := b.ReadFile(configFile)
	require.NoError(b.t, err)
	pages := func() { require.NoError(b.t, b.WriteFile(configFile, []byte("cors_origins = [\"*\"]\n"), 0o644)) }
	refused := func(command ...string) {
		b.t.Helper()
		_, stderr, err := b.Run(b.t.Context(), command...)
		require.Error(b.t, err)
		assert.Contains(b.t, stderr, none)
	}
	pages()
	b.MustRun(b.t, "systemctl", "reload", proxyUnit)
	refused("codex-proxy", "keys", "revoke", last)
	require.NoError(b.t, b.WriteFile(configFile, was, 0o644))
	b.MustRun(b.t, "systemctl", "reload", proxyUnit)
	b.keys("revoke", last)
	pages()
	refused("codex-proxy", "config", "check")
	refused("codex-proxy", "reload") // although the service was started with a key
	refused("codex-proxy", "keys", "open")
	assert.Equal(b.t, http.StatusUnauthorized, b.askWith(nil, "", nil), "the service goes on")
	_, _, err = b.Run(b.t.Context(), "systemctl", "restart", proxyUnit)
	require.Error(b.t, err)
	assert.Equal(b.t, "78", b.show(proxyUnit, "ExecMainStatus")["ExecMainStatus"])
	require.NoError(b.t, b.WriteFile(configFile, was, 0o644))
	b.MustRun(b.t, "systemctl", "reset-failed", proxyUnit)
	b.MustRun(b.t, "systemctl", "start", "codex.target")
	b.until("ready", ready)
	assert.Equal(b.t, http.StatusUnauthorized, b.askWith(nil, "", nil), "it was closed meanwhile")
	b.addKey(last)
}

// withoutAKey asserts that once there has been a key, every request without one is
// refused until an operator opens the API, whatever happens to the service.
func (b *bed) withoutAKey(last string) {
	b.t.Helper()
	still := func(status int) {
		b.t.Helper()
		for name, happens := range map[string]func(){
			"nothing": func() {},
			"reload":  func() { b.MustRun(b.t, "systemctl", "reload", proxyUnit); b.awaitSole() },
			"crash":   func() { b.signal(b.onlyProcess(proxyUnit), unix.SIGKILL); b.until("ready", ready) },
			"restart": func() { b.MustRun(b.t, "systemctl", "restart", proxyUnit) },
		} {
			happens()
			assert.Equal(b.t, status, b.askWith(nil, "", nil), name)
		}
	}
	b.MustRun(b.t, "sed", "-i", "/^"+last+" /d", keyFile)
	b.keys("apply")
	still(http.StatusUnauthorized)
	assert.Contains(b.t, b.MustRun(b.t, "codex-proxy", "status"), "nobody is let in without one")
	b.MustRun(b.t, "codex-proxy", "doctor")
	b.keys("open")
	still(http.StatusOK)
	assert.Contains(b.t, b.MustRun(b.t, "codex-proxy", "status"), "programs on this machine may use the API")
	for _, access := range []string{"closed", "open"} {
		log, err := b.Journal(b.t.Context(), "--output=cat", "--unit="+proxyUnit, "CODEX_EVENT=api-keys-none",
			"CODEX_ACCESS="+access)
		require.NoError(b.t, err)
		assert.Contains(b.t, log, "there is no API key")
	}
}

// The keys of a file in config.toml are in force once the service has read config.toml,
// and those of a file that it has not read are not.
func TestKeysOfANamedFile(t *testing.T) { bothSuites(t, testKeysOfANamedFile) }

func testKeysOfANamedFile(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	alice := b.addKey("alice")
	settings := func(text string) { require.NoError(t, b.WriteFile(configFile, []byte(text), 0o644)) }
	settings("api_keys = \"/etc/codex-proxy/more-keys\"\n")
	bob, stderr, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "bob")
	require.NoError(t, err)
	assert.Contains(t, stderr, "goes by /etc/codex-proxy/api-keys and not by /etc/codex-proxy/more-keys: systemctl reload codex-proxy")
	assert.Equal(t, http.StatusOK, b.askWith(nil, alice, nil), "the keys in force stay in force")
	assert.Equal(t, "640 root:codex-proxy\n", b.MustRun(t, "stat", "--format=%a %U:%G", "/etc/codex-proxy/more-keys"))
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	bob = strings.TrimSpace(bob)
	only := func(good, bad, when string) {
		t.Helper()
		assert.Equal(t, http.StatusOK, b.askWith(nil, good, nil), when)
		assert.Equal(t, http.StatusUnauthorized, b.askWith(nil, bad, nil), when)
	}
	only(bob, alice, "reloaded")
	only(b.addKey("carol"), alice, "added")
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	only(bob, alice, "restarted")
	b.healthy()
	settings("api_keys = \"/etc/codex-proxy/api-keys\"\n") // the path of the credential
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	only(alice, bob, "the default")
}

// The control socket is at the path in the settings, and there is none if the unit
// cannot make one.
func TestControlSocketOfTheSettings(t *testing.T) { bothSuites(t, testControlSocketOfTheSettings) }

func testControlSocketOfTheSettings(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	settings := func(path string) {
		require.NoError(t, b.WriteFile(configFile, []byte("control_socket = \""+path+"\"\n"), 0o644))
	}
	settings("/etc/codex-proxy/socket")
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "reload")
	assert.Error(t, err)
	assert.Contains(t, stderr, "control_socket = \"/etc/codex-proxy/socket\": ")
	b.MustRun(t, "codex-proxy", "status")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", proxyUnit)
	require.Error(t, err)
	assert.Equal(t, "78", b.show(proxyUnit, "ExecMainStatus")["ExecMainStatus"])
	settings("/var/lib/codex-proxy/socket")
	b.MustRun(t, "systemctl", "reset-failed", proxyUnit)
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.until("ready", ready)
	b.healthy()
	settings("/run/codex-proxy/control/another")
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	b.MustRun(t, "codex-proxy", "status", "--socket", "/run/codex-proxy/control/another")
	b.healthy()
}

// The usage of a key on its day survives a reload and a restart, and `codex-proxy usage`
// shows it, with and without a running service.
func TestUsage(t *testing.T) { bothSuites(t, testUsage) }

func testUsage(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	withinADay()
	carol := b.addKey("carol", "--tokens-per-day=1")
	bob := b.addKey("bob", "--requests-per-minute=1000", "--models="+model)
	require.Equal(t, http.StatusOK, b.askWith(nil, carol, nil))
	for range 3 {
		require.Equal(t, http.StatusOK, b.askWith(nil, bob, nil))
	}
	assert.Equal(t, http.StatusTooManyRequests, b.askWith(nil, carol, nil))
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	b.awaitSole() // and has written its usage
	b.untilUsed("carol", 1)
	b.untilUsed("bob", 3)
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	assert.Equal(t, http.StatusTooManyRequests, b.askWith(nil, carol, nil), "after a restart")
	require.Equal(t, http.StatusOK, b.askWith(nil, bob, nil))
	b.MustRun(t, "systemctl", "stop", proxyUnit)
	b.untilUsed("bob", 4)
	t.Log("\n" + b.MustRun(t, "codex-proxy", "usage", "--by", "day,key,model"))

	// After root has read it, the service can still write it.
	b.MustRun(t, "systemctl", "start", proxyUnit)
	assert.Equal(t, http.StatusTooManyRequests, b.askWith(nil, carol, nil))
	require.Equal(t, http.StatusOK, b.askWith(nil, bob, nil))
	b.untilUsed("bob", 5)
	modes := b.MustRun(t, "find", "/var/lib/codex-proxy", "-mindepth", "1", "-printf", `%m-%y-%u\n`)
	for _, mode := range strings.Fields(modes) {
		assert.Contains(t, []string{"600-f-codex-proxy", "700-d-codex-proxy"}, mode)
	}
	assert.NotContains(t, b.journal(proxyUnit), "usage database")
}

// withinADay waits for the end of a day of the limits that is about to end.
func withinADay() {
	const day = 24 * time.Hour // of UTC
	if left := time.Until(time.Now().Truncate(day).Add(day)); left < bound {
		<-time.After(left)
	}
}

// untilUsed waits until the database has exactly that many requests of a key.
func (b *bed) untilUsed(key string, requests int64) {
	b.t.Helper()
	var got int64
	require.Eventually(b.t, func() bool {
		var report struct {
			Usage []struct {
				Key      string
				Requests int64
				Input    int64 `json:"input_tokens"`
			}
		}
		out, stderr, err := b.Run(b.t.Context(), "codex-proxy", "usage", "--json", "--by=key")
		require.NoError(b.t, err, stderr)
		require.NoError(b.t, json.Unmarshal([]byte(out), &report), out)
		for _, u := range report.Usage {
			if u.Key == key {
				got = u.Requests
				assert.Positive(b.t, u.Input)
			}
		}
		return got == requests
	}, bound, 50*time.Millisecond, "%d", got)
}

func (b *bed) keys(args ...string) string {
	b.t.Helper()
	return b.MustRun(b.t, append([]string{"codex-proxy", "keys"}, args...)...)
}

// addKey returns the new key.
func (b *bed) addKey(name string, limits ...string) string {
	b.t.Helper()
	return trim(b.keys(append([]string{"add", name}, limits...)...))
}

// askWith requests a short answer with a key, on a new connection if client is nil.
func (b *bed) askWith(client *http.Client, key string, closed *bool) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	req := chatRequest(ctx, false, "hi")
	req.Header.Set("Authorization", "Bearer "+key)
	if client == nil { // not b.http: a connection of its pool may just be ended by a process that ends
		client, req.Close = &http.Client{Transport: &http.Transport{DialContext: b.DialContext}}, true
	}
	res, err := client.Do(req)
	require.NoError(b.t, err)
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(b.t, err)
	if closed != nil {
		*closed = res.Close
	}
	return res.StatusCode
}

func firstWords(table string) (words []string) {
	for line := range strings.Lines(table) {
		words = append(words, strings.Fields(line)[0])
	}
	return words
}
