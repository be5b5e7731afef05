package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// plainWorker is a worker that uses OpenAI with its own login.
const plainWorker = "mode = \"plain\"\ncodex_path = \"" + codexDir + "/bin/codex\"\n"

// accountList is the JSON of `codex-proxy accounts list`.
type accountList struct {
	Accounts []struct {
		Name, Login, Plan, Email, Error string
		ActiveState                     string `json:"active_state"`
		Limits                          []struct {
			Window    string
			UsedRatio float64 `json:"used_ratio"`
			ResetsAt  string  `json:"resets_at"`
		}
	}
}

func (b *bed) accounts() accountList {
	b.t.Helper()
	var l accountList
	out := b.MustRun(b.t, "codex-proxy", "accounts", "list", "--json")
	require.NoError(b.t, json.Unmarshal([]byte(out), &l), out)
	return l
}

// row is what `codex-proxy accounts list` shows of a worker: its state, and then each label with its words, with one
// space between all words.
func (b *bed) row(worker string) string {
	b.t.Helper()
	blocks := strings.Split(b.MustRun(b.t, "codex-proxy", "accounts", "list"), "\n\n")
	for _, block := range blocks {
		if words := strings.Fields(block); len(words) > 0 && words[0] == worker {
			return strings.Join(words[1:], " ")
		}
	}
	return ""
}

// logIn logs a worker in with an API key, and returns the output.
func (b *bed) logIn(worker, key string) string {
	b.t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*bound)
	defer cancel()
	err := b.Exec(ctx, machine.Exec{Args: []string{"codex-proxy", "accounts", "login", worker, "--with-api-key"},
		Stdin: strings.NewReader(key + "\n"), Stdout: &out, Stderr: &out})
	require.NoError(b.t, err, out.String())
	return out.String()
}

// watched is the output of a running program.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	want *regexp.Regexp
	came chan struct{} // closed when the expected text has come
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.want.Match(w.text.Bytes()) {
		select {
		case <-w.came:
		default:
			close(w.came)
		}
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// A worker from its installation to a turn with its own API key at OpenAI, then a
// second worker with another account beside it.
func TestAccountsWithAPIKeys(t *testing.T) { bothSuites(t, testAccountsWithAPIKeys) }

func testAccountsWithAPIKeys(t *testing.T, suite string) {
	b := newBed(t, suite, plainWorker, "")
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
	openai := b.openAI()
	assert.Equal(t, "needs login unit inactive (dead)", b.row("default"))

	said := b.logIn("default", "sk-first-SECRET")
	assert.Contains(t, said, "systemctl start codex-proxy")
	assert.Equal(t, "600 root:root", b.owner("/var/lib/codex-worker/default/auth.json"), "systemd gives it away at a start")
	assert.Equal(t, "unknown login API key unit inactive (dead)", b.row("default"))
	b.start()
	user := b.uid(workerUnit)
	assert.Equal(t, "600 "+user+":"+user, b.owner("/var/lib/codex-worker/default/auth.json"))
	assert.Contains(t, b.row("default"), "login API key unit active (running)")
	models := b.accounts()
	assert.Equal(t, "api_key", models.Accounts[0].Login)
	assert.Empty(t, models.Accounts[0].Limits, "an API key has none")

	// A second worker has its own login.
	before := b.files()
	out, stderr, err := b.Run(t.Context(), "codex-proxy", "accounts", "add", "second")
	require.NoError(t, err, out+stderr)
	assert.Contains(t, stderr, "codex-proxy accounts login second")
	assert.Contains(t, stderr, "codex-proxy.service is reloaded.")
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "add", "second")
	require.Error(t, err)
	assert.Contains(t, stderr, `there is a worker "second" already`)
	assert.Equal(t, "needs login unit inactive (dead)", b.row("second"))
	assert.Equal(t, "enabled", trim(b.MustRun(t, "systemctl", "is-enabled", "codex-worker@second.service")))
	said = b.logIn("second", "sk-second-SECRET")
	assert.Contains(t, said, "codex-worker@second.service is ready.")
	b.until("two ready", func(status int, r report) bool {
		return status == http.StatusOK && len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
	})
	assert.Contains(t, b.row("second"), "login API key unit active (running)")
	for worker, key := range map[string]string{"default": "sk-second-SECRET",
		"second": "sk-first-SECRET"} { // the other one serves
		b.MustRun(t, "codex-proxy", "drain", worker)
		b.askOpenAI()
		seen := openai.Keys()
		assert.Equal(t, key, seen[len(seen)-1])
		b.MustRun(t, "codex-proxy", "undrain", worker)
	}

	// A running worker uses a new login at once.
	b.logIn("second", "sk-third-SECRET")
	b.until("ready again", func(_ int, r report) bool { return r.Workers[1].Ready })
	b.MustRun(t, "codex-proxy", "drain", "default")
	b.askOpenAI()
	seen := openai.Keys()
	assert.Equal(t, "sk-third-SECRET", seen[len(seen)-1])
	b.MustRun(t, "codex-proxy", "undrain", "default")
	b.assertUnseen("SECRET")

	// With its home the worker comes back logged in; without it, the login is gone.
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "remove", "second")
	require.NoError(t, err, stderr)
	assert.Contains(t, stderr, "Its home stays, with its login: /var/lib/codex-worker/second")
	assert.Contains(t, stderr, "codex-proxy.service is reloaded.")
	b.until("one worker", func(_ int, r report) bool { return len(r.Workers) == 1 }) // the process before lingers
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "add", "second")
	require.NoError(t, err, stderr)
	assert.Contains(t, stderr, "codex-worker@second.service is ready.")
	b.MustRun(t, "mkdir", "-m", "700", "/var/lib/codex-worker/.login-second") // of a login that was killed
	b.MustRun(t, "codex-proxy", "accounts", "remove", "second", "--purge")
	for _, path := range b.left(before) {
		assert.NotRegexp(t, "^/etc/|^/run/codex|^/run/systemd|^/var/lib/codex-worker/second|second",
			path, "what a round leaves")
	}
	assert.Empty(t, trim(b.MustRun(t, "systemctl", "list-units", "--all", "--plain", "--no-legend",
		"codex-worker@second*")))
	for _, refused := range [][]string{{"remove", "second"}, {"remove", "default"},
		{"add", "../x"}, {"login", "none"}} {
		_, _, err = b.Run(t.Context(), append([]string{"codex-proxy", "accounts"}, refused...)...)
		assert.Error(t, err, refused)
	}
}

// uid is the number of the user that a running unit has.
func (b *bed) uid(unit string) string {
	b.t.Helper()
	uid := b.show(unit, "UID")["UID"]
	require.Regexp(b.t, `^[1-9][0-9]*$`, uid, unit)
	return uid
}

// owner is the mode of a file, and its user and group: as names, but as numbers for the
// user of a worker.
func (b *bed) owner(path string) string {
	b.t.Helper()
	parts := strings.Fields(b.MustRun(b.t, "stat", "--dereference", "--format=%a %U:%G %u:%g", path))
	if strings.HasPrefix(parts[1], "root:") || strings.HasPrefix(parts[1], "codex-") {
		return parts[0] + " " + parts[1]
	}
	return parts[0] + " " + parts[2]
}

// assertUnseen asserts that a secret is in no place that other users can read.
func (b *bed) assertUnseen(secret string) {
	b.t.Helper()
	assert.NotContains(b.t, b.export(), secret)
	assert.NotContains(b.t, b.MustRun(b.t, "systemctl", "show", "--all", "codex-worker@default",
		"codex-worker@second", "codex-proxy"), secret)
	assert.NotContains(b.t, b.MustRun(b.t, "sh", "-c",
		"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"), secret)
	for _, user := range []string{"codex-proxy", "codex-worker"} {
		_, _, err := b.Run(b.t.Context(), "runuser", "-u", user, "--", "cat", "/var/lib/codex-worker/default/auth.json")
		assert.Error(b.t, err, user)
	}
	assert.NotContains(b.t, b.MustRun(b.t, "codex-proxy", "accounts", "list", "--json"), secret)
}

// openAIModel is a model that codex lists by itself.
const openAIModel = "gpt-5.5"

// askOpenAI runs a turn that must succeed.
func (b *bed) askOpenAI() {
	b.t.Helper()
	status, body, err := b.tryOpenAI()
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, status, body)
}

func (b *bed) tryOpenAI() (int, string, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+openAIModel+`","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// The login by device code, as an operator does it, and the limits of the account in
// the list and in the metrics.
func TestAccountsWithADeviceCode(t *testing.T) { bothSuites(t, testAccountsWithADeviceCode) }

func testAccountsWithADeviceCode(t *testing.T, suite string) {
	b := newBed(t, suite, plainWorker, "")
	openai := b.openAI()
	_, _, err := b.Run(t.Context(), "systemctl", "start", "codex.target")
	_ = err // the worker waits for its login
	assert.Contains(t, b.row("default"), "needs login")

	said := &watched{want: regexp.MustCompile(userCode), came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login"},
			Stdout: said, Stderr: said})
	}()
	select {
	case <-said.came:
	case err := <-ended:
		require.NoError(t, err, said.String())
	}
	assert.Contains(t, said.String(), "https://auth.openai.com/codex/device")
	openai.approve(true)
	require.NoError(t, <-ended, said.String())
	assert.Contains(t, said.String(), "codex-worker@default.service is ready.")
	b.until("ready", ready)

	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="default"} 0.42`)
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="default"} 0.07`)
	assert.Regexp(t, `^available 5h \[#+-+\] 42 % used, resets in 1h(0[0-9]|1[0-2])m, at .* 7d \[#+-+\] 7 % used, resets in `+
		`1h(0[0-9]|1[0-2])m, at .* known by a .* login ChatGPT, pro unit active \(running\)$`, b.row("default"))
	l := b.accounts()
	assert.Equal(t, accountMail, l.Accounts[0].Email)
	assert.NotContains(t, b.MustRun(t, "codex-proxy", "accounts", "list"), accountMail)
	_, health := b.get("/healthz")
	assert.NotContains(t, string(health), accountMail)

	b.askOpenAI() // the answer carries the limits
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="default"} 0.43`)
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="default"} 0.07`)
	b.assertUnseen("SECRET")

	// A request for limits without an answer delays no turn.
	goOn := openai.hang()
	defer goOn()
	before := len(openai.person.Record().Readings)
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.until("ready", ready)
	openai.untilRead(before)
	b.askOpenAI()
	goOn()
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="default"} 0.07`)

	// A new login ends the previous one only after it has succeeded.
	openai.approve(false)
	b.giveUp()
	assert.Zero(t, openai.Revoked())
	assert.Contains(t, b.row("default"), "login ChatGPT, pro unit active (running)")
	b.askOpenAI()
	openai.approve(true)
	b.MustRun(t, "codex-proxy", "accounts", "login")
	assert.Equal(t, 1, openai.Revoked())
	b.until("ready", ready)
	b.askOpenAI()
	b.assertUnseen("SECRET")

	b.MustRun(t, "systemctl", "stop", "codex.target")
	b.awaitInactive(workerUnit)
	assert.Regexp(t, `^available 5h \[#+-+\] 4[0-9] % used.* login ChatGPT, pro unit inactive \(dead\)$`, b.row("default"),
		"as the service saved it")
}

// untilMetric waits for a line of the metrics.
func (b *bed) untilMetric(line string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	b.untilMetricWithin(ctx, line)
}

func (b *bed) untilMetricWithin(ctx context.Context, line string) {
	b.t.Helper()
	for {
		_, text := b.get("/metrics")
		if strings.Contains(string(text), line+"\n") {
			return
		}
		if ctx.Err() != nil {
			about := regexp.MustCompile(`(?m)^codex_(worker_rate_limit|account).*$`).FindAllString(string(text), -1)
			require.Fail(b.t, "never "+line, "%q", about)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// The login of a busy worker cuts off no turn, and an abandoned login leaves nothing
// behind.
func TestAccountsLoginWhileATurnRuns(t *testing.T) { bothSuites(t, testAccountsLoginWhileATurnRuns) }

func testAccountsLoginWhileATurnRuns(t *testing.T, suite string) {
	b := newBed(t, suite, plainWorker, "")
	openai := b.openAI()
	b.logIn("default", "sk-first-SECRET")
	b.start()
	require.NoError(t, b.models.Script("text one", "gate login", "text two"))
	var status int
	var body string
	answered := make(chan error, 1)
	go func() {
		var err error
		status, body, err = b.tryOpenAI()
		answered <- err
	}()
	_, err := b.models.Wait(t.Context(), func(turns []modelserver.Request) bool {
		return len(turns) == 1 &&
			turns[0].Gate != ""
	})
	require.NoError(t, err)
	loggedIn := make(chan error, 1)
	go func() {
		loggedIn <- b.Exec(t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login",
			"--with-api-key"}, Stdin: strings.NewReader("sk-second-SECRET")})
	}()
	b.until("draining", func(_ int, r report) bool { return r.Workers[0].Reason == "draining" })
	b.models.Release("login")
	require.NoError(t, <-answered)
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, "onetwo")
	require.NoError(t, <-loggedIn)
	b.until("ready", ready)
	b.askOpenAI()
	assert.Equal(t, []string{"sk-first-SECRET", "sk-second-SECRET"}, openai.Keys())

	b.giveUp()
	assert.Contains(t, b.row("default"), "login API key unit active (running)", "the login of before holds")
	b.askOpenAI()
}

// giveUp begins a login by device code, and ends it with Ctrl-C.
func (b *bed) giveUp() {
	b.t.Helper()
	said := &watched{want: regexp.MustCompile(userCode), came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login"},
			Stdout: said, Stderr: said})
	}()
	select {
	case <-said.came:
	case err := <-ended:
		require.NoError(b.t, err, said.String())
	}
	b.MustRun(b.t, "sh", "-c", "kill -INT $(pgrep -fx 'codex-proxy accounts login')")
	require.Error(b.t, <-ended)
	assert.Contains(b.t, said.String(), "codex has not logged in")
	assert.Empty(b.t, b.MustRun(b.t, "sh", "-c", "ps -e -o args= | grep '[d]evice-auth' || true"))
	assert.Empty(b.t, b.MustRun(b.t, "find", "/var/lib/codex-worker", "-maxdepth", "1", "-name", ".login-*"))
}

// A worker that needs no login is reported so by every command.
func TestAccountsThatAreNotNeeded(t *testing.T) { bothSuites(t, testAccountsThatAreNotNeeded) }

func testAccountsThatAreNotNeeded(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	assert.Equal(t, "needs no login unit active (running)", b.row("default"))
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "accounts", "login")
	require.Error(t, err)
	assert.Contains(t, stderr, "the worker needs no login: its requests go to another endpoint")
	require.NoError(t, b.WriteFile(workerFile, []byte("mode = \"demo\"\n"), 0o644))
	_, stderr, err = b.Run(t.Context(), "codex-proxy", "accounts", "login")
	require.Error(t, err)
	assert.Contains(t, stderr, "it is the demo")
	require.NoError(t, b.WriteFile(workerFile, []byte("mod = 1\n"), 0o644))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "accounts", "list"),
		`error   `+workerFile+`:1: unknown key "mod" (did you mean "mode"?)`)
	_, stderr, err = b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
		"codex-proxy", "accounts", "list")
	require.Error(t, err)
	assert.Contains(t, stderr, "only root may do this")
}

// The service knows a worker that was added during its start when the command has
// ended, although it had read the list of workers before.
func TestAccountsAddDuringAStart(t *testing.T) {
	bothSuites(t, func(t *testing.T, suite string) {
		b := newBed(t, suite, realWorker, "start_timeout = \"40s\"\n")
		const dropIn = "/etc/systemd/system/codex-worker@default.service.d/wait.conf"
		wait := "[Service]\nExecStartPre=/bin/sh -c 'until [ -e /etc/go ]; do sleep 0.05; done'\n"
		require.NoError(t, b.WriteFile(dropIn, []byte(wait), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.MustRun(t, "systemctl", "start", "codex-proxy.socket")
		b.MustRun(t, "systemctl", "start", "--no-block", "codex.target")
		b.until("listening", func(int, report) bool { return true })
		require.Equal(t, "activating", b.show(proxyUnit, "ActiveState")["ActiveState"])
		added := b.begin("codex-proxy", "accounts", "add", "second")
		require.Eventually(t, func() bool {
			_, _, err := b.Run(t.Context(), "systemctl", "is-enabled", "codex-worker@second.service")
			return err == nil
		}, bound, 50*time.Millisecond)
		b.MustRun(t, "touch", "/etc/go")
		require.NoError(t, <-added)
		b.until("two workers", func(_ int, r report) bool { return len(r.Workers) == 2 }) // the process before lingers
		b.until("ready", ready)
	})
}
