package accounts

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// A worker from its installation to a turn with its own API key at OpenAI, then a
// second worker with another account beside it.
func TestAccountsWithAPIKeys(t *testing.T) { bed.EitherSuite(t, testAccountsWithAPIKeys) }

func testAccountsWithAPIKeys(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.PlainWorker, "")
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	openai := bed.StartOpenAI(b)
	assert.Equal(t, "needs login unit inactive (dead)", bed.AccountRow(b, "default"))

	said := bed.LogIn(b, "default", "sk-first-SECRET")
	assert.Contains(t, said, "systemctl start codex-proxy")
	assert.Equal(t, "600 root:root", bed.Owner(b, "/var/lib/codex-worker/default/auth.json"), "systemd gives it away at a start")
	assert.Equal(t, "unknown login API key unit inactive (dead)", bed.AccountRow(b, "default"))
	b.Start()
	user := bed.UID(b, bed.WorkerUnit)
	assert.Equal(t, "600 "+user+":"+user, bed.Owner(b, "/var/lib/codex-worker/default/auth.json"))
	assert.Contains(t, bed.AccountRow(b, "default"), "login API key unit active (running)")
	models := bed.ListAccounts(b)
	assert.Equal(t, "api_key", models.Accounts[0].Login)
	assert.Empty(t, models.Accounts[0].Limits, "an API key has none")

	// A second worker has its own login.
	before := bed.Files(b)
	out, stderr, err := b.Run(t.Context(), "codex-proxy", "accounts", "add", "second")
	require.NoError(t, err, out+stderr)
	assert.Contains(t, stderr, "codex-proxy accounts login second")
	assert.Contains(t, stderr, "codex-proxy.service is reloaded.")
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "add", "second")
	require.Error(t, err)
	assert.Contains(t, stderr, `there is a worker "second" already`)
	assert.Equal(t, "needs login unit inactive (dead)", bed.AccountRow(b, "second"))
	assert.Equal(t, "enabled", bed.Trim(b.MustRun(t, "systemctl", "is-enabled", "codex-worker@second.service")))
	said = bed.LogIn(b, "second", "sk-second-SECRET")
	assert.Contains(t, said, "codex-worker@second.service is ready.")
	b.Until("two ready", func(status int, r bed.Report) bool {
		return status == http.StatusOK && len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
	})
	assert.Contains(t, bed.AccountRow(b, "second"), "login API key unit active (running)")
	for worker, key := range map[string]string{"default": "sk-second-SECRET",
		"second": "sk-first-SECRET"} { // the other one serves
		b.MustRun(t, "codex-proxy", "drain", worker)
		bed.AskOpenAI(b)
		seen := openai.Keys()
		assert.Equal(t, key, seen[len(seen)-1])
		b.MustRun(t, "codex-proxy", "undrain", worker)
	}

	// A running worker uses a new login at once.
	bed.LogIn(b, "second", "sk-third-SECRET")
	b.Until("ready again", func(_ int, r bed.Report) bool { return r.Workers[1].Ready })
	b.MustRun(t, "codex-proxy", "drain", "default")
	bed.AskOpenAI(b)
	seen := openai.Keys()
	assert.Equal(t, "sk-third-SECRET", seen[len(seen)-1])
	b.MustRun(t, "codex-proxy", "undrain", "default")
	bed.AssertUnseen(b, "SECRET")

	// With its home the worker comes back logged in; without it, the login is gone.
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "remove", "second")
	require.NoError(t, err, stderr)
	assert.Contains(t, stderr, "Its home stays, with its login: /var/lib/codex-worker/second")
	assert.Contains(t, stderr, "codex-proxy.service is reloaded.")
	b.Until("one worker", func(_ int, r bed.Report) bool { return len(r.Workers) == 1 }) // the process before lingers
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "add", "second")
	require.NoError(t, err, stderr)
	assert.Contains(t, stderr, "codex-worker@second.service is ready.")
	b.MustRun(t, "mkdir", "-m", "700", "/var/lib/codex-worker/.login-second") // of a login that was killed
	b.MustRun(t, "codex-proxy", "accounts", "remove", "second", "--purge")
	for _, path := range bed.FilesSince(b, before) {
		assert.NotRegexp(t, "^/etc/|^/run/codex|^/run/systemd|^/var/lib/codex-worker/second|second",
			path, "what a round leaves")
	}
	assert.Empty(t, bed.Trim(b.MustRun(t, "systemctl", "list-units", "--all", "--plain", "--no-legend",
		"codex-worker@second*")))
	for _, refused := range [][]string{{"remove", "second"}, {"remove", "default"},
		{"add", "../x"}, {"login", "none"}} {
		_, _, err = b.Run(t.Context(), append([]string{"codex-proxy", "accounts"}, refused...)...)
		assert.Error(t, err, refused)
	}
}

// The login by device code, as an operator does it, and the limits of the account in
// the list and in the metrics.
func TestAccountsWithADeviceCode(t *testing.T) { bed.EitherSuite(t, testAccountsWithADeviceCode) }

func testAccountsWithADeviceCode(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.PlainWorker, "")
	openai := bed.StartOpenAI(b)
	_, _, err := b.Run(t.Context(), "systemctl", "start", "codex.target")
	_ = err // the worker waits for its login
	assert.Contains(t, bed.AccountRow(b, "default"), "needs login")

	said := &bed.Watched{Want: regexp.MustCompile(bed.UserCode), Came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login", "--json"},
			Stdout: said, Stderr: said})
	}()
	select {
	case <-said.Came:
	case err := <-ended:
		require.NoError(t, err, said.String())
	}
	openai.Decide(true)
	require.NoError(t, <-ended, said.String())
	assert.Contains(t, said.String(), "codex-worker@default.service is ready.")
	assert.Contains(t, said.String(), "Follow these steps", "for people")
	assert.Contains(t, said.String(), `{"url":"https://auth.openai.com/codex/device","code":"`+bed.UserCode+`"}`)
	assert.Contains(t, said.String(), `{"worker":"default","logged_in":true}`)
	b.Until("ready", bed.Ready)

	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="default"} 0.42`)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="default"} 0.07`)
	assert.Regexp(t, `^available 5h \[#+-+\] 42 % used, resets in 1h(0[0-9]|1[0-2])m, at .* 7d \[#+-+\] 7 % used, resets in `+
		`1h(0[0-9]|1[0-2])m, at .* known by a .* login ChatGPT, pro unit active \(running\)$`, bed.AccountRow(b, "default"))
	l := bed.ListAccounts(b)
	assert.Equal(t, accountMail, l.Accounts[0].Email)
	assert.NotContains(t, b.MustRun(t, "codex-proxy", "accounts", "list"), accountMail)
	_, health := b.Get("/healthz")
	assert.NotContains(t, string(health), accountMail)

	bed.AskOpenAI(b) // the answer carries the limits
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="default"} 0.43`)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="default"} 0.07`)
	bed.AssertUnseen(b, "SECRET")

	// A request for limits without an answer delays no turn.
	goOn := hang(openai)
	defer goOn()
	before := len(openai.Person.Record().Readings)
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	untilRead(openai, before)
	bed.AskOpenAI(b)
	goOn()
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="default"} 0.07`)

	// A new login ends the previous one only after it has succeeded.
	openai.Decide(false)
	giveUp(b)
	assert.Zero(t, openai.Revoked())
	assert.Contains(t, bed.AccountRow(b, "default"), "login ChatGPT, pro unit active (running)")
	bed.AskOpenAI(b)
	openai.Decide(true)
	b.MustRun(t, "codex-proxy", "accounts", "login")
	assert.Equal(t, 1, openai.Revoked())
	b.Until("ready", bed.Ready)
	bed.AskOpenAI(b)
	bed.AssertUnseen(b, "SECRET")

	b.MustRun(t, "systemctl", "stop", "codex.target")
	b.AwaitInactive(bed.WorkerUnit)
	assert.Regexp(t, `^available 5h \[#+-+\] 4[0-9] % used.* login ChatGPT, pro unit inactive \(dead\)$`, bed.AccountRow(b, "default"),
		"as the service saved it")
}

// The login of a busy worker cuts off no turn, and an abandoned login leaves nothing
// behind.
func TestAccountsLoginWhileATurnRuns(t *testing.T) {
	bed.EitherSuite(t, testAccountsLoginWhileATurnRuns)
}

func testAccountsLoginWhileATurnRuns(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.PlainWorker, "")
	openai := bed.StartOpenAI(b)
	bed.LogIn(b, "default", "sk-first-SECRET")
	b.Start()
	require.NoError(t, b.Models.Script("text one", "gate login", "text two"))
	var status int
	var body string
	answered := make(chan error, 1)
	go func() {
		var err error
		status, body, err = bed.TryOpenAI(b)
		answered <- err
	}()
	_, err := b.Models.Wait(t.Context(), func(turns []modelserver.Request) bool {
		return len(turns) == 1 &&
			turns[0].Gate != ""
	})
	require.NoError(t, err)
	loggedIn := make(chan error, 1)
	go func() {
		loggedIn <- b.Exec(t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login",
			"--with-api-key"}, Stdin: strings.NewReader("sk-second-SECRET")})
	}()
	b.Until("draining", func(_ int, r bed.Report) bool { return r.Workers[0].Reason == "draining" })
	b.Models.Release("login")
	require.NoError(t, <-answered)
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, "onetwo")
	require.NoError(t, <-loggedIn)
	b.Until("ready", bed.Ready)
	bed.AskOpenAI(b)
	assert.Equal(t, []string{"sk-first-SECRET", "sk-second-SECRET"}, openai.Keys())

	giveUp(b)
	assert.Contains(t, bed.AccountRow(b, "default"), "login API key unit active (running)", "the login of before holds")
	bed.AskOpenAI(b)
}

// giveUp begins a login by device code, and ends it with Ctrl-C.
func giveUp(b *bed.Bed) {
	b.T.Helper()
	said := &bed.Watched{Want: regexp.MustCompile(bed.UserCode), Came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.T.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login"},
			Stdout: said, Stderr: said})
	}()
	select {
	case <-said.Came:
	case err := <-ended:
		require.NoError(b.T, err, said.String())
	}
	b.MustRun(b.T, "sh", "-c", "kill -INT $(pgrep -fx 'codex-proxy accounts login')")
	require.Error(b.T, <-ended)
	assert.Contains(b.T, said.String(), "codex has not logged in")
	assert.Empty(b.T, b.MustRun(b.T, "sh", "-c", "ps -e -o args= | grep '[d]evice-auth' || true"))
	assert.Empty(b.T, b.MustRun(b.T, "find", "/var/lib/codex-worker", "-maxdepth", "1", "-name", ".login-*"))
}

// A worker that needs no login is reported so by every command.
func TestAccountsThatAreNotNeeded(t *testing.T) { bed.EitherSuite(t, testAccountsThatAreNotNeeded) }

func testAccountsThatAreNotNeeded(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	assert.Equal(t, "needs no login unit active (running)", bed.AccountRow(b, "default"))
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "accounts", "login")
	require.Error(t, err)
	assert.Contains(t, stderr, "the worker needs no login: its requests go to another endpoint")
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("mode = \"demo\"\n"), 0o644))
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "login")
	require.Error(t, err)
	assert.Contains(t, stderr, "it is the demo")
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("mod = 1\n"), 0o644))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "accounts", "list"),
		`error   `+bed.WorkerFile+`:1: unknown key "mod" (did you mean "mode"?)`)
	_, stderr, err = b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
		"codex-proxy", "accounts", "list")
	require.Error(t, err)
	assert.Contains(t, stderr, "only root may do this")
}

// The service knows a worker that was added during its start when the command has
// ended, although it had read the list of workers before.
func TestAccountsAddDuringAStart(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "start_timeout = \"40s\"\n")
		const dropIn = "/etc/systemd/system/codex-worker@default.service.d/wait.conf"
		wait := "[Service]\nExecStartPre=/bin/sh -c 'until [ -e /etc/go ]; do sleep 0.05; done'\n"
		require.NoError(t, b.WriteFile(dropIn, []byte(wait), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.MustRun(t, "systemctl", "start", "codex-proxy.socket")
		b.MustRun(t, "systemctl", "start", "--no-block", "codex.target")
		b.Until("listening", func(int, bed.Report) bool { return true })
		require.Equal(t, "activating", b.Properties(bed.ProxyUnit, "ActiveState")["ActiveState"])
		added := b.Begin("codex-proxy", "accounts", "add", "second")
		await.True(t, func() bool {
			_, _, err := b.Run(t.Context(), "systemctl", "is-enabled", "codex-worker@second.service")
			return err == nil
		}, bed.Bound)
		b.MustRun(t, "touch", "/etc/go")
		require.NoError(t, <-added)
		b.Until("two workers", func(_ int, r bed.Report) bool { return len(r.Workers) == 2 }) // the process before lingers
		b.Until("ready", bed.Ready)
	})
}
