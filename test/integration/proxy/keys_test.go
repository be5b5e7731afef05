package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
)

// A key works as soon as it is shown, and for no request after its end: not in the
// process of before a reload, nor after the next reload, restart or crash.
func TestKeys(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		b.Start()
		stream := bed.Hold(b, "keys") // keeps the first process until its end
		alice := bed.AddKey(b, "alice")
		assert.Equal(t, http.StatusOK, askWith(b, nil, alice, nil))
		assert.Equal(t, http.StatusUnauthorized, askWith(b, nil, "", nil))
		old := &http.Client{Transport: &http.Transport{DialContext: b.DialContext}} // on a connection of its own
		defer old.CloseIdleConnections()
		require.Equal(t, http.StatusOK, askWith(b, old, alice, nil))

		assert.Empty(t, b.MustRun(t, "cat", "/run/credentials/"+bed.ProxyUnit+"/api-keys"),
			"systemd takes the file when the service starts, and 252 after a reload")
		b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
		require.Equal(t, http.StatusOK, askWith(b, nil, alice, nil), "the successor has the keys of today")
		assert.Equal(t, http.StatusUnauthorized, askWith(b, nil, "", nil))
		bob := bed.AddKey(b, "bob")
		bed.Keys(b, "revoke", "alice")
		var closed bool
		assert.Equal(t, http.StatusUnauthorized, askWith(b, old, alice, &closed), "the first process refuses the key, too")
		assert.True(t, closed, "it was the first process that answered")

		still := func(after string) {
			assert.Equal(t, http.StatusOK, askWith(b, nil, bob, nil), after)
			assert.Equal(t, http.StatusUnauthorized, askWith(b, nil, alice, nil), after)
		}
		still("the change")
		b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
		still("a reload")
		stream.Finish(b)
		bed.AwaitSole(b)
		b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGKILL)
		b.Until("ready", bed.Ready)
		still("a crash")
		b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
		still("a restart")
		assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "cannot take over the API keys")

		ignoresUnknown(b, bob)
		pagesNeedAKey(b, "bob")
		withoutAKey(b, "bob")
		bed.AddKey(b, "bob")
		b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
		_, stderr, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "carol")
		require.NoError(t, err)
		assert.Contains(t, stderr, "does not run")
		assert.Equal(t, []string{"NAME", "bob", "carol"}, firstWords(bed.Keys(b, "list")))
	})
}

// ignoresUnknown asserts that unknown parameters are refused, or ignored for the key and by the settings.
func ignoresUnknown(b *bed.Bed, bob string) {
	b.T.Helper()
	ask := func() (int, string) {
		b.T.Helper()
		body := `{"model":"` + bed.Model + `","top_k":40,"messages":[{"role":"user","content":"hi"}]}`
		req, err := http.NewRequestWithContext(b.T.Context(), http.MethodPost, bed.Base+bed.ChatPath, strings.NewReader(body))
		require.NoError(b.T, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("api-key", bob)
		req.Close = true
		res, err := (&http.Client{Transport: &http.Transport{DialContext: b.DialContext}}).Do(req)
		require.NoError(b.T, err)
		defer res.Body.Close()
		return res.StatusCode, res.Header.Get("X-Codex-Ignored-Params")
	}
	is := func(status int, ignored string) {
		b.T.Helper()
		gotStatus, gotIgnored := ask()
		assert.Equal(b.T, status, gotStatus)
		assert.Equal(b.T, ignored, gotIgnored)
	}
	is(http.StatusBadRequest, "")
	bed.Keys(b, "set", "bob", "--unknown-parameters=ignore")
	is(http.StatusOK, "top_k")
	was, err := b.ReadFile(bed.ConfigFile)
	require.NoError(b.T, err)
	require.NoError(b.T, b.WriteFile(bed.ConfigFile, append([]byte("unknown_parameters = \"ignore\"\n"), was...), 0o644))
	bed.Keys(b, "set", "bob", "--unknown-parameters=none")
	is(http.StatusBadRequest, "")
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
	is(http.StatusOK, "top_k")
	require.NoError(b.T, b.WriteFile(bed.ConfigFile, was, 0o644))
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
}

// pagesNeedAKey asserts that the last key stays while web pages may use the API, and that
// pages may not use it while there is none.
func pagesNeedAKey(b *bed.Bed, last string) {
	b.T.Helper()
	const none = bed.ConfigFile + ":1: cors_origins: lets web pages use the API with a key of their own, and there is no key; codex-proxy keys add NAME"
	was, err := b.ReadFile(bed.ConfigFile)
	require.NoError(b.T, err)
	pages := func() { require.NoError(b.T, b.WriteFile(bed.ConfigFile, []byte("cors_origins = [\"*\"]\n"), 0o644)) }
	refused := func(command ...string) {
		b.T.Helper()
		_, stderr, err := b.Run(b.T.Context(), command...)
		require.Error(b.T, err)
		assert.Contains(b.T, stderr, none)
	}
	pages()
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
	refused("codex-proxy", "keys", "revoke", last)
	require.NoError(b.T, b.WriteFile(bed.ConfigFile, was, 0o644))
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
	bed.Keys(b, "revoke", last)
	pages()
	refused("codex-proxy", "config", "check")
	refused("codex-proxy", "reload") // although the service was started with a key
	refused("codex-proxy", "keys", "open")
	assert.Equal(b.T, http.StatusUnauthorized, askWith(b, nil, "", nil), "the service goes on")
	_, _, err = b.Run(b.T.Context(), "systemctl", "restart", bed.ProxyUnit)
	require.Error(b.T, err)
	assert.Equal(b.T, "78", b.Properties(bed.ProxyUnit, "ExecMainStatus")["ExecMainStatus"])
	require.NoError(b.T, b.WriteFile(bed.ConfigFile, was, 0o644))
	b.MustRun(b.T, "systemctl", "reset-failed", bed.ProxyUnit)
	b.MustRun(b.T, "systemctl", "start", "codex.target")
	b.Until("ready", bed.Ready)
	assert.Equal(b.T, http.StatusUnauthorized, askWith(b, nil, "", nil), "it was closed meanwhile")
	bed.AddKey(b, last)
}

// withoutAKey asserts that once there has been a key, every request without one is
// refused until an operator opens the API, whatever happens to the service.
func withoutAKey(b *bed.Bed, last string) {
	b.T.Helper()
	still := func(status int) {
		b.T.Helper()
		for name, happens := range map[string]func(){
			"nothing": func() {},
			"reload":  func() { b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit); bed.AwaitSole(b) },
			"crash":   func() { b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGKILL); b.Until("ready", bed.Ready) },
			"restart": func() { b.MustRun(b.T, "systemctl", "restart", bed.ProxyUnit) },
		} {
			happens()
			assert.Equal(b.T, status, askWith(b, nil, "", nil), name)
		}
	}
	b.MustRun(b.T, "sed", "-i", "/^"+last+" /d", bed.KeyFile)
	bed.Keys(b, "apply")
	still(http.StatusUnauthorized)
	assert.Contains(b.T, b.MustRun(b.T, "codex-proxy", "status"), "nobody is let in without one")
	b.MustRun(b.T, "codex-proxy", "doctor")
	bed.Keys(b, "open")
	still(http.StatusOK)
	assert.Contains(b.T, b.MustRun(b.T, "codex-proxy", "status"), "programs on this machine may use the API")
	for _, access := range []string{"closed", "open"} {
		log, err := b.Journal(b.T.Context(), "--output=cat", "--unit="+bed.ProxyUnit, "CODEX_EVENT=api-keys-none",
			"CODEX_ACCESS="+access)
		require.NoError(b.T, err)
		assert.Contains(b.T, log, "there is no API key")
	}
}

// The keys of a file in config.toml are in force once the service has read config.toml,
// and those of a file that it has not read are not.
func TestKeysOfANamedFile(t *testing.T) { bed.EitherSuite(t, testKeysOfANamedFile) }

func testKeysOfANamedFile(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	alice := bed.AddKey(b, "alice")
	settings := func(text string) { require.NoError(t, b.WriteFile(bed.ConfigFile, []byte(text), 0o644)) }
	settings("api_keys = \"/etc/codex-proxy/more-keys\"\n")
	bob, stderr, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "bob")
	require.NoError(t, err)
	assert.Contains(t, stderr, "goes by /etc/codex-proxy/api-keys and not by /etc/codex-proxy/more-keys: systemctl reload codex-proxy")
	assert.Equal(t, http.StatusOK, askWith(b, nil, alice, nil), "the keys in force stay in force")
	assert.Equal(t, "640 root:codex-proxy\n", b.MustRun(t, "stat", "--format=%a %U:%G", "/etc/codex-proxy/more-keys"))
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	bob = strings.TrimSpace(bob)
	only := func(good, bad, when string) {
		t.Helper()
		assert.Equal(t, http.StatusOK, askWith(b, nil, good, nil), when)
		assert.Equal(t, http.StatusUnauthorized, askWith(b, nil, bad, nil), when)
	}
	only(bob, alice, "reloaded")
	only(bed.AddKey(b, "carol"), alice, "added")
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	only(bob, alice, "restarted")
	bed.DoctorFindsNothing(b)
	settings("api_keys = \"/etc/codex-proxy/api-keys\"\n") // the path of the credential
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	only(alice, bob, "the default")
}

// The control socket is at the path in the settings, and there is none if the unit
// cannot make one.
func TestControlSocketOfTheSettings(t *testing.T) { bed.EitherSuite(t, testControlSocketOfTheSettings) }

func testControlSocketOfTheSettings(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	settings := func(path string) {
		require.NoError(t, b.WriteFile(bed.ConfigFile, []byte("control_socket = \""+path+"\"\n"), 0o644))
	}
	settings("/etc/codex-proxy/socket")
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "reload")
	assert.Error(t, err)
	assert.Contains(t, stderr, "control_socket = \"/etc/codex-proxy/socket\": ")
	b.MustRun(t, "codex-proxy", "status")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", bed.ProxyUnit)
	require.Error(t, err)
	assert.Equal(t, "78", b.Properties(bed.ProxyUnit, "ExecMainStatus")["ExecMainStatus"])
	settings("/var/lib/codex-proxy/socket")
	b.MustRun(t, "systemctl", "reset-failed", bed.ProxyUnit)
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.Until("ready", bed.Ready)
	bed.DoctorFindsNothing(b)
	settings("/run/codex-proxy/control/another")
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.MustRun(t, "codex-proxy", "status", "--socket", "/run/codex-proxy/control/another")
	bed.DoctorFindsNothing(b)
}

// The usage of a key on its day survives a reload and a restart, and `codex-proxy usage`
// shows it, with and without a running service.
func TestUsage(t *testing.T) { bed.EitherSuite(t, testUsage) }

func testUsage(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	withinADay()
	carol := bed.AddKey(b, "carol", "--tokens-per-day=1")
	bob := bed.AddKey(b, "bob", "--requests-per-minute=1000", "--models="+bed.Model)
	require.Equal(t, http.StatusOK, askWith(b, nil, carol, nil))
	for range 3 {
		require.Equal(t, http.StatusOK, askWith(b, nil, bob, nil))
	}
	assert.Equal(t, http.StatusTooManyRequests, askWith(b, nil, carol, nil))
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	bed.AwaitSole(b) // and has written its usage
	bed.UntilKeyUsed(b, "carol", 1)
	bed.UntilKeyUsed(b, "bob", 3)
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	assert.Equal(t, http.StatusTooManyRequests, askWith(b, nil, carol, nil), "after a restart")
	require.Equal(t, http.StatusOK, askWith(b, nil, bob, nil))
	b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
	bed.UntilKeyUsed(b, "bob", 4)
	t.Log("\n" + b.MustRun(t, "codex-proxy", "usage", "--by", "day,key,model"))

	// After root has read it, the service can still write it.
	b.MustRun(t, "systemctl", "start", bed.ProxyUnit)
	assert.Equal(t, http.StatusTooManyRequests, askWith(b, nil, carol, nil))
	require.Equal(t, http.StatusOK, askWith(b, nil, bob, nil))
	bed.UntilKeyUsed(b, "bob", 5)
	modes := b.MustRun(t, "find", "/var/lib/codex-proxy", "-mindepth", "1", "-printf", `%m-%y-%u\n`)
	for _, mode := range strings.Fields(modes) {
		assert.Contains(t, []string{"600-f-codex-proxy", "700-d-codex-proxy"}, mode)
	}
	assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "usage database")
}

// withinADay waits for the end of a day of the limits that is about to end.
func withinADay() {
	const day = 24 * time.Hour // of UTC
	if left := time.Until(time.Now().Truncate(day).Add(day)); left < bed.Bound {
		<-time.After(left)
	}
}

// askWith requests a short answer with a key, on a new connection if client is nil.
func askWith(b *bed.Bed, client *http.Client, key string, closed *bool) int {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	req := bed.ChatRequest(ctx, false, "hi")
	req.Header.Set("Authorization", "Bearer "+key)
	if client == nil { // not b.http: a connection of its pool may just be ended by a process that ends
		client, req.Close = &http.Client{Transport: &http.Transport{DialContext: b.DialContext}}, true
	}
	res, err := client.Do(req)
	require.NoError(b.T, err)
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(b.T, err)
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
