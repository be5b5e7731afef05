package workers

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
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
func TestLoginBesideARunningWorker(t *testing.T) { bed.EitherSuite(t, testLoginBesideARunningWorker) }

func testLoginBesideARunningWorker(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.PlainWorker, "")
	openai := bed.StartOpenAI(b)
	bed.LogIn(b, "default", "sk-first-SECRET")
	b.Start()
	used := func() string {
		t.Helper()
		b.Until("ready", bed.Ready)
		bed.AskOpenAI(b)
		seen := openai.Keys()
		return seen[len(seen)-1]
	}
	require.Equal(t, "sk-first-SECRET", used())

	// Killed before it has a login, it changes nothing.
	device, said := beginLogin(b)
	<-said.Came
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "accounts", "login", "--with-api-key")
	require.Error(t, err)
	assert.Regexp(t, `in use by codex-proxy accounts login \(process [0-9]+\)`, stderr, "one login at a time")
	killLogin(b)
	require.Error(t, <-device)
	assert.Contains(t, bed.AccountRow(b, "default"), "login API key unit active (running)")
	assert.Equal(t, "sk-first-SECRET", used())

	// The running codex renews its login while its turns are finished, and the command is
	// killed: the restart goes on, with the new login.
	answered := holdTurn(b, "renewed")
	invocation := b.Properties(bed.WorkerUnit, "InvocationID")
	loggedIn := beginKeyLogin(b, "sk-second-SECRET")
	b.Until("draining", func(_ int, r bed.Report) bool { return r.Workers[0].Reason == "draining" })
	b.MustRun(t, "sh", "-ec", `cd `+nativeHome+`; grep -q sk-first auth.json
		printf '{"auth_mode":"apikey","OPENAI_API_KEY":"sk-renewed-SECRET"}' >auth.json`)
	killLogin(b)
	require.Error(t, <-loggedIn)
	b.Models.Release("renewed")
	require.NoError(t, <-answered)
	b.Until("restarted", func(status int, _ bed.Report) bool {
		return b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"] != invocation["InvocationID"] && status == http.StatusOK
	})
	assert.Equal(t, "sk-second-SECRET", used())

	// The next login removes the remains of the killed ones.
	bed.LogIn(b, "default", "sk-third-SECRET")
	assert.Equal(t, "sk-third-SECRET", used())
	assert.Empty(t, b.MustRun(t, "sh", "-c",
		"ls -d /var/lib/codex-worker/.login-* "+nativeHome+"/auth.json.* 2>/dev/null || true"))
	user := bed.UID(b, bed.WorkerUnit)
	assert.Equal(t, "600 "+user+":"+user, bed.Owner(b, nativeHome+"/auth.json"))

	// A home that the account shares with another worker, or a copied login, is found.
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	openai.Decide(true)
	b.MustRun(t, "codex-proxy", "accounts", "add", "second")
	b.MustRun(t, "codex-proxy", "accounts", "login", "default")
	b.MustRun(t, "codex-proxy", "accounts", "login", "second")
	b.Until("two", func(_ int, r bed.Report) bool { return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready })
	bed.DoctorFinds(b, "login", "worker second: has a copy of the login of the worker default")
	b.MustRun(t, "sed", "-i", "s/refresh-SECRET/other-SECRET/", "/var/lib/codex-worker/second/auth.json")
	page, _, _ := b.Run(t.Context(), "codex-proxy", "doctor")
	assert.Contains(t, page, "worker second: has the account of the worker default: they use up one quota\n")
	bed.AssertUnseen(b, "SECRET")
}

// beginLogin begins a login by device code.
func beginLogin(b *bed.Bed) (<-chan error, *bed.Watched) {
	said := &bed.Watched{Want: regexp.MustCompile(bed.UserCode), Came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.T.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login"},
			Stdout: said, Stderr: said})
	}()
	return ended, said
}

func beginKeyLogin(b *bed.Bed, key string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- b.Exec(b.T.Context(), machine.Exec{Args: []string{"codex-proxy", "accounts", "login",
			"--with-api-key"}, Stdin: strings.NewReader(key)})
	}()
	return ended
}

func killLogin(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "pkill", "-KILL", "-fx", "codex-proxy accounts login.*")
}

// holdTurn runs a turn that ends when the gate is released.
func holdTurn(b *bed.Bed, gate string) <-chan error {
	b.T.Helper()
	require.NoError(b.T, b.Models.Script("text one", "gate "+gate, "text two"))
	answered := make(chan error, 1)
	go func() {
		_, _, err := bed.TryOpenAI(b)
		answered <- err
	}()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, func(turns []modelserver.Request) bool {
		return len(turns) > 0 && turns[len(turns)-1].Gate != ""
	})
	require.NoError(b.T, err)
	return answered
}
