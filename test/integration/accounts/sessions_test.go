package accounts

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/codex/versions"
	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
	"codex-proxy/test/codexes"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// ordered uses one account after the other.
const ordered = "[accounts]\nrotation = \"ordered\"\n"

// sessionCalls is how many calls of a tool the sessions of the SDKs have.
const sessionCalls = 6

// A session of the codex CLI, and loops of tools in the SDKs, go on through the end of an account's quota: no request
// fails, nothing restarts, and the tools work before and after it. Each session begins on the account on which the
// one before it ended.
func TestSessions(t *testing.T) {
	t.Parallel()
	binds, node := bed.NodeClients(t)
	venvs := bed.PythonVenvs(t)
	b := bed.NewOn(t, bed.Neighbours(), bed.AccountWorker, ordered, binds...)
	a := bed.WithAccounts(b, bed.AccountWorker, "a", "b", "c", "d", "e", "f")
	a.Start()
	a.UntilWorkersReady()
	t.Run("codex exec", func(t *testing.T) { execOutlives(a, t, "a", "b") })
	if asksNothing(t) {
		t.Run("codex in a terminal", func(t *testing.T) { terminalOutlives(a, t, "b", "c", "d") })
	} else {
		for _, name := range []string{"b", "c"} {
			a.Server.Account(name).Exhaust(time.Now().Add(time.Hour))
		}
	}
	t.Run("npm", func(t *testing.T) {
		loopsOutlive(a, t, "d", "e", []string{"chat", "previous-response", "own-history", "agents-chat",
			"agents-responses"}, "session-npm-", func(ctx context.Context) error { return npmSessions(a, ctx, node) })
	})
	t.Run("python", func(t *testing.T) {
		loopsOutlive(a, t, "e", "f", []string{"chat", "previous-response", "agents-chat", "agents-responses"},
			"session-python-", func(ctx context.Context) error { return pythonSessions(a, ctx, venvs) })
	})
	assertNothingFailed(a)
}

// asksNothing reports whether the interface of the codex of the tests asks its user no first question. That of the oldest
// one asks whether a directory is trusted.
func asksNothing(t *testing.T) bool {
	t.Helper()
	version, err := codexes.Version(bed.RequireCodex(t))
	require.NoError(t, err)
	return !versions.Older(version, versions.OldestForRemotes)
}

// execOutlives runs codex exec, whose account is used up in the middle of its turn, and goes on with its session.
func execOutlives(a *bed.AccountsBed, t *testing.T, first, second string) {
	home := "/root/exec"
	require.NoError(t, a.WriteFile(home+"/config.toml", fmt.Appendf(nil, bed.CliConfig, bed.Model, false), 0o600))
	a.Server.Account(first).Allow(2)
	codex := []string{"env", "CODEX_HOME=" + home, bed.CodexDir + "/bin/codex", "exec", "--skip-git-repo-check",
		"--dangerously-bypass-approvals-and-sandbox", "-C", "/tmp"}
	call := func(n int) string {
		return fmt.Sprintf(`[[reasoning hm]] [[call client_exec_command {"cmd":"echo said-by-$((40+%d))"}]] [[then]] `, n)
	}
	ask := func(args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
		defer cancel()
		stdout, stderr, err := a.Run(ctx, append(codex, args...)...)
		require.NoError(t, err, "%s\n%s", stdout, stderr)
		return stdout + stderr
	}
	talk := ask("exec-1 " + call(1) + call(2) + call(3) + "[[text exec done]]")
	assert.Contains(t, talk, "exec done")
	assert.Equal(t, []int{2, 2}, servedBy(a, "exec-1", first, second))
	assert.Contains(t, ask("resume", "--last", "exec-2 "+call(4)+"[[text also done]]"), "also done")
	assert.Equal(t, []int{0, 2}, servedBy(a, "exec-2", first, second))
	bed.AssertGiven(t, bed.LastTurn(a.Models), "exec-1", "said-by-41", "said-by-42", "said-by-43", "exec done", "exec-2",
		"said-by-44")
	assert.Len(t, rollouts(a, home), 1, "one session")
}

// terminalOutlives works in codex's own user interface through the ends of two quotas: one that the service learns
// from the refusal of a turn, and one of which an answer has informed it.
func terminalOutlives(a *bed.AccountsBed, t *testing.T, first, second, third string) {
	home := "/root/terminal"
	require.NoError(t, a.WriteFile(home+"/config.toml", fmt.Appendf(nil, bed.CliConfig, bed.Model, false), 0o600))
	codex := bed.NewTerminal(a.Bed, "codex", "env", "CODEX_HOME="+home, bed.CodexDir+"/bin/codex",
		"--dangerously-bypass-approvals-and-sandbox", "-C", "/tmp")
	codex.Until("Ask Codex")
	process := paneProcess(codex)
	ask := func(n int) {
		codex.Enter(fmt.Sprintf(`tui-%d [[reasoning hm]] [[call client_exec_command {"cmd":"echo by-$((40+%d))"}]] `+
			`[[then]] [[text done %d.]]`, n, n, n))
		codex.Until(fmt.Sprintf("• done %d.", n))
	}
	ask(1)
	assert.Equal(t, []int{2, 0, 0}, servedBy(a, "tui-1", first, second, third))
	a.Server.Account(first).Exhaust(time.Now().Add(time.Hour))
	ask(2)
	assert.Equal(t, []int{0, 2, 0}, servedBy(a, "tui-2", first, second, third))
	a.Server.Account(second).Refuse(accountserver.InStream)
	a.Server.Account(second).Allow(1)
	ask(3)
	// The one turn that is left may as well be that of the title, for which the interface asks at the same time.
	served := servedBy(a, "tui-3", first, second, third)
	assert.Contains(t, [][]int{{0, 1, 1}, {0, 0, 2}}, served)
	ask(4)
	assert.Equal(t, []int{0, 0, 2}, servedBy(a, "tui-4", first, second, third))
	bed.AssertGiven(t, lastWithoutFormat(a.Models), "tui-1", "by-41", "done 1.", "tui-2", "by-42", "done 2.", "tui-3", "by-43",
		"done 3.", "tui-4", "by-44")
	assert.Equal(t, process, paneProcess(codex), "no restart")
	assert.Len(t, rollouts(a, home), 1, "one session")
	assert.NotRegexp(t, `(?i)reconnect|error|limit|quota`, codex.Screen())
}

// lastWithoutFormat is the last turn of the conversation itself: beside it the interface has the model write titles,
// in a form of their own.
func lastWithoutFormat(s *modelserver.Server) modelserver.Request {
	turns := slices.DeleteFunc(s.Turns(), func(r modelserver.Request) bool {
		return bytes.Contains(r.Body.Text.Format, []byte("json_schema"))
	})
	return turns[len(turns)-1]
}

// loopsOutlive runs sessions of an SDK with sessionCalls calls each, all beside each other. In their middle the first
// account is used up.
func loopsOutlive(a *bed.AccountsBed, t *testing.T, first, second string, names []string, prefix string,
	run func(context.Context) error) {
	a.Server.Account(first).Allow(sessionCalls / 2 * len(names))
	ctx, cancel := context.WithTimeout(t.Context(), bed.ClientBound)
	defer cancel()
	require.NoError(t, run(ctx))
	for _, name := range names {
		served := servedBy(a, prefix+name+" ", first, second)
		assert.Equal(t, sessionCalls+1, served[0]+served[1], "%s: each request is answered once", name)
		assert.NotZero(t, served[0], name)
		assert.NotZero(t, served[1], name)
	}
}

func npmSessions(a *bed.AccountsBed, ctx context.Context, node string) error {
	var out bytes.Buffer
	err := a.Exec(ctx, machine.Exec{Args: []string{node, bed.ClientsDir + "/cases/sessions.mjs", fmt.Sprint(sessionCalls)},
		Env: []string{"API_KEY=none"}, Stdout: &out, Stderr: &out})
	if err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	return nil
}

func pythonSessions(a *bed.AccountsBed, ctx context.Context, venvs string) error {
	script, err := filepath.Abs("../../clients/python/cases/sessions.py")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	home := a.T.TempDir()
	cmd := exec.CommandContext(ctx, filepath.Join(venvs, "newest", "bin", "python"), script, fmt.Sprint(sessionCalls))
	p := &bed.Python{Bed: a.Bed, Venvs: venvs, Key: "none"}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = home, p.Environment(home, "newest"), &out, &out
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := a.StartCommand(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	return nil
}

// servedBy counts for each account the turns of a prompt that it has answered.
func servedBy(a *bed.AccountsBed, word string, accounts ...string) []int {
	counts := make([]int, len(accounts))
	for i, name := range accounts {
		for _, turn := range a.Server.Account(name).Record().Turns {
			if !turn.Refused && strings.HasPrefix(turn.Text, word) {
				counts[i]++
			}
		}
	}
	return counts
}

// rollouts are the files of codex's sessions.
func rollouts(a *bed.AccountsBed, home string) []string {
	a.T.Helper()
	return strings.Fields(a.MustRun(a.T, "find", home+"/sessions", "-name", "rollout-*"))
}

// aFailure is the line of the journal for a request that failed.
var aFailure = regexp.MustCompile(`(?m)^request .* outcome=(?:[^o]|o[^k]).*$`)

// assertNothingFailed asserts that no request has failed, and that no account received encrypted reasoning of another.
func assertNothingFailed(a *bed.AccountsBed) {
	a.T.Helper()
	assert.Empty(a.T, aFailure.FindAllString(a.UnitJournal(bed.ProxyUnit), -1))
	for _, account := range a.Server.Accounts() {
		assert.Zero(a.T, account.Record().Foreign(), account.Name)
	}
}
