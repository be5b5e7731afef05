package integration

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

var heldWord = regexp.MustCompile("held\n")

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

// A login beside a running worker is neither overwritten by the running codex, which
// rewrites its login when it renews its tokens, nor lost if the command is killed.
func TestLoginBesideARunningWorker(t *testing.T) { bothSuites(t, testLoginBesideARunningWorker) }

func testLoginBesideARunningWorker(t *testing.T, suite string) {
	b := newBed(t, suite, plainWorker, "")
	openai := b.openAI()
	b.logIn("default", "sk-first-SECRET")
	b.start()
	used := func() string {
		t.Helper()
		b.until("ready", ready)
		b.askOpenAI()
		seen := openai.Keys()
		return seen[len(seen)-1]
	}
	require.Equal(t, "sk-first-SECRET", used())

	// Killed before it has a login, it changes nothing.
	device, said := b.beginLogin()
	<-said.came
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "accounts", "login", "--with-api-key")
	require.Error(t, err)
	assert.Regexp(t, `in use by codex-proxy accounts login \(process [0-9]+\)`, stderr, "one login at a time")
	b.killLogin()
	require.Error(t, <-device)
	assert.Contains(t, b.row("default"), "login API key unit active (running)")
	assert.Equal(t, "sk-first-SECRET", used())

	// The running codex renews its login while its turns are finished, and the command is
	// killed: the restart goes on, with the new login.
	answered := b.holdTurn("renewed")
	invocation := b.show(workerUnit, "InvocationID")
	loggedIn := b.beginKeyLogin("sk-second-SECRET")
	b.until("draining", func(_ int, r report) bool { return r.Workers[0].Reason == "draining" })
	b.MustRun(t, "sh", "-ec", `cd `+nativeHome+`; grep -q sk-first auth.json
		printf '{"auth_mode":"apikey","OPENAI_API_KEY":"sk-renewed-SECRET"}' >auth.json`)
	b.killLogin()
	require.Error(t, <-loggedIn)
	b.models.Release("renewed")
	require.NoError(t, <-answered)
	b.until("restarted", func(status int, _ report) bool {
		return b.show(workerUnit, "InvocationID")["InvocationID"] != invocation["InvocationID"] && status == http.StatusOK
	})
	assert.Equal(t, "sk-second-SECRET", used())

	// The next login removes the remains of the killed ones.
	b.logIn("default", "sk-third-SECRET")
	assert.Equal(t, "sk-third-SECRET", used())
	assert.Empty(t, b.MustRun(t, "sh", "-c",
		"ls -d /var/lib/codex-worker/.login-* "+nativeHome+"/auth.json.* 2>/dev/null || true"))
	user := b.uid(workerUnit)
	assert.Equal(t, "600 "+user+":"+user, b.owner(nativeHome+"/auth.json"))

	// A home that the account shares with another worker, or a copied login, is found.
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
	openai.approve(true)
	b.MustRun(t, "codex-proxy", "accounts", "add", "second")
	b.MustRun(t, "codex-proxy", "accounts", "login", "default")
	b.MustRun(t, "codex-proxy", "accounts", "login", "second")
	b.until("two", func(_ int, r report) bool { return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready })
	b.found("login", "worker second: has a copy of the login of the worker default")
	b.MustRun(t, "sed", "-i", "s/refresh-SECRET/other-SECRET/", "/var/lib/codex-worker/second/auth.json")
	page, _, _ := b.Run(t.Context(), "codex-proxy", "doctor")
	assert.Contains(t, page, "worker second: has the account of the worker default: they use up one quota\n")
	b.assertUnseen("SECRET")
}

// beginLogin begins a login by device code.
func (b *bed) beginLogin() (<-chan error, *watched) {
	said := &watched{want: regexp.MustCompile(userCode), came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login"},
			Stdout: said, Stderr: said})
	}()
	return ended, said
}

func (b *bed) beginKeyLogin(key string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.t.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login",
			"--with-api-key"}, Stdin: strings.NewReader(key)})
	}()
	return ended
}

func (b *bed) killLogin() {
	b.t.Helper()
	b.MustRun(b.t, "pkill", "-KILL", "-fx", "codex-proxy accounts login.*")
}

// holdTurn runs a turn that ends when the gate is released.
func (b *bed) holdTurn(gate string) <-chan error {
	b.t.Helper()
	require.NoError(b.t, b.models.Script("text one", "gate "+gate, "text two"))
	answered := make(chan error, 1)
	go func() {
		_, _, err := b.tryOpenAI()
		answered <- err
	}()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, func(turns []modelserver.Request) bool {
		return len(turns) > 0 && turns[len(turns)-1].Gate != ""
	})
	require.NoError(b.t, err)
	return answered
}
